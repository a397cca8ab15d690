"""Checks a Tidemark archive or one proof file from the description in docs/auditor.md alone.
    verify.py ARCHIVE KEY [CHECKPOINT THAT WAS KEPT]  or  verify.py PROOF.json KEY   (pip install cryptography zstandard)
"""
import base64, hashlib, json, os, struct, sys, time
import zstandard
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

sha = lambda *parts: hashlib.sha256(b"".join(parts)).digest()
node = lambda left, right: sha(b"\x01", left, right)
event_leaf = lambda nonce, event: sha(b"\x00tidemark/event/v1\n", nonce, event)
line_leaf = lambda nonce, line: sha(b"\x00tidemark/line/v1\n", nonce, line)

def need(fine, what):
    if not fine:
        raise ValueError(what)

def root(leaves):
    stack = []  # (size, hash) of complete subtrees
    for leaf in leaves:
        stack.append((1, leaf))
        while len(stack) > 1 and stack[-1][0] == stack[-2][0]:
            (n, right), (_, left) = stack.pop(), stack.pop()
            stack.append((2 * n, node(left, right)))
    value = stack.pop()[1] if stack else sha(b"")
    while stack:
        value = node(stack.pop()[1], value)
    return value

def included(index, size, leaf, proof):
    at, last, value = index, size - 1, leaf
    need(0 <= index < size, "a proof has an index outside its tree")
    for sibling in proof:
        need(last > 0, "a proof is too long")
        right = at & 1 or at == last
        value = node(sibling, value) if right else node(value, sibling)
        while right and at and not at & 1:
            at, last = at >> 1, last >> 1
        at, last = at >> 1, last >> 1
    need(last == 0, "a proof is too short")
    return value

def signed_lines(note, keys):
    text, signatures = note[: note.rindex("\n\n") + 1], note[note.rindex("\n\n") + 2 :]
    signed = False
    for line in signatures.splitlines():
        name, raw = line[2:].split(" ")[0], base64.b64decode(line.split(" ")[2])
        for key in keys:
            own, ident, public = key.split("+", 2)
            if name == own and raw[:4].hex() == ident:
                Ed25519PublicKey.from_public_bytes(base64.b64decode(public)[1:]).verify(raw[4:], text.encode())
                signed = True
    need(signed, "the note is not signed by the key")
    return text.splitlines()

def checkpoint(note, keys):
    origin, size, value = signed_lines(note, keys)
    return origin, int(size), base64.b64decode(value)

def tile(kind, index, width):
    path = f"{index % 1000:03}"
    while (index := index // 1000) > 0:
        path = f"x{index % 1000:03}/{path}"
    return f"log/tile/{kind}/{path}" + (f".p/{width}" if width < 256 else "")

def check_range(line, stored):
    need(sha(stored).hex() == line["stored_sha256"], "the range has another hash")
    key, at = stored[8 : line["key_bytes"]], line["key_bytes"]
    need(stored[:8] == struct.pack("<II", 0x184D2A51, len(key)), "the key frame is damaged")
    secret, raw = key[19:] if key.startswith(b"tidemark/secret/v1\n") else None, b""
    for length, size, _ in line["frames"]:
        frame, out = stored[at : at + length], zstandard.ZstdDecompressor().decompressobj()
        need(zstandard.get_frame_parameters(frame).content_size == size, "a frame is larger than declared")
        raw += out.decompress(frame)
        need(out.eof and not out.unused_data, "a frame does not end where it should")
        at += length
    need(at == len(stored) and sha(raw).hex() == line["raw_sha256"], "the events have another hash")
    breaks = {index: length for index, _, length in line["breaks"]}
    erased, leaves, start = dict(line["erased"]), [], 0
    for i in range(line["events"]):
        end = start + breaks[i] if i in breaks else raw.index(b"\n", start)
        need(raw[end : end + 1] == b"\n", "an event does not end with a line break")
        nonce = sha(b"tidemark/event-nonce/v1\n", secret, struct.pack(">Q", i)) if secret else key[51 + 32 * i : 83 + 32 * i]
        leaves.append(bytes.fromhex(erased[i]) if i in erased else event_leaf(nonce, raw[start:end]))
        start = end + 1
    need(start == len(raw) and root(leaves).hex() == line["events_root"], "the tree of the events differs")
    return sha(b"tidemark/line-nonce/v1\n", secret) if secret else key[19:51]

def check_part(read, files, explained):
    manifest, data = read(files["manifest"]), read(files["data"])
    explained.update((files["manifest"], files["data"]))
    for name, content in (("manifest", manifest), ("data", data)):
        need(sha(content).hex() == files[name + "_sha256"], files[name] + " has another hash")
    rows, offset, frames = manifest.splitlines(), 0, []
    tree = root([bytes.fromhex(json.loads(row)["leaf"]) for row in rows]).hex()
    need(len(rows) == files["lines"] and tree == files["lines_root"], files["manifest"] + " has another tree")
    for row in rows:
        entry = json.loads(row)
        if "gone" not in entry:
            line, text = entry["line"], row[row.index(b'"line":') + 7 : -1]
            need(line["offset"] == offset, "ranges do not fill the file")
            offset += line["stored_bytes"]
            nonce = check_range(line, data[line["offset"] : offset])
            need(line_leaf(nonce, text).hex() == entry["leaf"], "a line has another hash")
            frames += [(line["key_bytes"], 0)] + [(stored, raw) for stored, raw, _ in line["frames"]]
    table = b"".join(struct.pack("<II", *frame) for frame in frames) + struct.pack("<IBI", len(frames), 0, 0x8F92EAB1)
    need(data[offset:] == struct.pack("<II", 0x184D2A5E, len(table)) + table, files["data"] + " has other bytes at its end")

def check_archive(folder, key, kept):
    read = lambda path: open(os.path.join(folder, path), "rb").read()
    newest, entries, parts, explained = read("log/checkpoint").decode(), [], {}, set()
    size = int(newest.split("\n")[1])
    for index in range(-(-size // 256)):
        bundle, at = read(tile("entries", index, min(256, size - index * 256))), 0
        while at < len(bundle):
            end = at + 2 + struct.unpack(">H", bundle[at : at + 2])[0]
            entries, at = entries + [bundle[at + 2 : end]], end
    leaves, hashes = [json.loads(entry) for entry in entries], [sha(b"\x00", entry) for entry in entries]
    keys, trusted = [leaf for leaf in leaves if leaf["kind"] == "key"], [key]  # list.index fails when the key never signed this log
    for leaf in keys[[leaf["key"] for leaf in keys].index(key) + 1 :]:
        _, n, value = checkpoint(read(f"log/checkpoint.{leaf['index'] + 1}").decode(), trusted[-1:])
        need(n == leaf["index"] + 1 and root(hashes[:n]) == value, "a new key is not confirmed by the old one")
        trusted.append(leaf["key"])
    origin, size, value = checkpoint(newest, trusted[-1:])
    need(size == len(entries) and root(hashes) == value, "the log entries are not those of the checkpoint")
    if kept:
        _, before, value = checkpoint(open(kept).read(), trusted)
        need(before <= size and root(hashes[:before]) == value, "the log is not a continuation of the kept checkpoint")
    for i, leaf in enumerate(leaves):
        need(leaf["index"] == i and leaf["origin"] == origin, f"log entry {i} is of another place")
        text = f"texts/{leaf.get('reason_hash', leaf.get('case_hash'))}.json"  # may be erased
        need(not os.path.exists(f"{folder}/{text}") or sha(read(text)).hex() in text, text + " has another hash")
        if "lines_root" in leaf or leaf["kind"] in ("prune", "erase"):
            parts[leaf.get("leaf", i)] = leaf.get("replacement") if "leaf" in leaf else leaf
    for files in filter(None, parts.values()):
        check_part(read, files, explained)
    rows = signed_lines(read("log/locked").decode(), trusted[-1:])[2:] if os.path.exists(f"{folder}/log/locked") else []
    explained.update(row.split(" ")[1] for row in rows if row > time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() - 86400)))
    found = {os.path.relpath(f"{path}/{name}", folder) for top in ("events", "manifests") for path, _, names in os.walk(f"{folder}/{top}") for name in names}
    need(found <= explained, f"in no log entry: {found - explained}")
    return f"{len(parts)} parts, {sum(f['events'] for f in parts.values() if f)} events"

def check_proof(path, key):
    proof = json.load(open(path))
    hashes, nonce = lambda step: [bytes.fromhex(h) for h in step["proof"]], lambda step: bytes.fromhex(step["nonce"])
    origin, size, value = checkpoint(proof["checkpoint"], [key])
    entry, line, event = (proof[step] for step in ("entry", "line", "event"))
    text, row = entry["text"].encode(), line["text"].encode()
    need(included(entry["index"], size, sha(b"\x00", text), hashes(entry)) == value, "the entry is not in the log")
    leaf, parsed = json.loads(text), json.loads(row)
    files = leaf.get("replacement") or leaf
    need(leaf["origin"] == origin and leaf["index"] == entry["index"], "the entry is of another place")
    need(included(line["index"], files["lines"], line_leaf(nonce(line), row), hashes(line)).hex() == files["lines_root"], "the line is not in the manifest")
    slice_ = base64.b64decode(event["bytes"])
    need(included(event["index"], parsed["events"], event_leaf(nonce(event), slice_), hashes(event)).hex() == parsed["events_root"], "the event is not in the line")
    return slice_.decode()

if __name__ == "__main__":
    target, key, kept = [*sys.argv, None][1:4]
    try:
        print("VALID:", check_archive(target, key, kept) if os.path.isdir(target) else check_proof(target, key))
    except Exception as error:
        sys.exit(f"INVALID: {type(error).__name__} {error}")
