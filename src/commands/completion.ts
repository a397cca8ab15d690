import { Argument, type Command } from "commander";
import type { Io } from "./io.ts";

const SHELLS = ["bash", "zsh", "fish"] as const;

/** One command with the words that can follow it. */
interface Node {
  /** The words that lead to it, without the program's name: "", "dead-letters", "dead-letters list". */
  readonly path: string;
  readonly commands: readonly { readonly name: string; readonly summary: string }[];
  readonly options: readonly { readonly name: string; readonly summary: string }[];
}

/** `tidemark completion SHELL`: a script made from the commands themselves. */
export function registerCompletion(program: Command, io: Io, all: () => Promise<Command>): void {
  program
    .command("completion")
    .summary("print the completion script of a shell")
    .description("Prints a script that completes commands and options in bash, zsh or fish.")
    .addArgument(new Argument("<shell>", "the shell").choices([...SHELLS]))
    .addHelpText(
      "after",
      "\nExample:\n  $ tidemark completion bash > ~/.local/share/bash-completion/completions/tidemark",
    )
    .action(async (shell: (typeof SHELLS)[number]) => {
      const nodes = [...nodesOf(await all(), "")];
      io.stdout.write(SCRIPTS[shell](nodes));
    });
}

function* nodesOf(command: Command, path: string): Generator<Node> {
  yield {
    path,
    commands: command.commands.map((sub) => ({ name: sub.name(), summary: plain(sub.summary()) })),
    options: [
      ...command.options
        .filter(({ long }) => long)
        .map(({ long, description }) => ({ name: long!, summary: plain(description) })),
      { name: "--help", summary: "display help" },
    ],
  };
  for (const sub of command.commands) yield* nodesOf(sub, `${path} ${sub.name()}`.trim());
}

/** Quotes and backslashes would need escapes that differ between shells. */
function plain(text: string): string {
  return text.replace(/['"`\\$:[\]]/g, "");
}

const words = ({ commands, options }: Node) => [...commands, ...options].map(({ name }) => name).join(" ");

const SCRIPTS = {
  bash: (nodes: readonly Node[]) => `# bash completion of tidemark: source <(tidemark completion bash)
_tidemark() {
  local current="\${COMP_WORDS[COMP_CWORD]}" path="" word
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    [[ $word == -* ]] && break
    path="\${path:+$path }$word"
  done
  local words=""
  case "$path" in
${nodes.map((node) => `    "${node.path}") words="${words(node)}" ;;`).join("\n")}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [[ \${#COMPREPLY[@]} -eq 0 && $current != -* ]] && COMPREPLY=($(compgen -f -- "$current"))
}
complete -F _tidemark tidemark
`,
  zsh: (nodes: readonly Node[]) => `#compdef tidemark
# zsh completion of tidemark: tidemark completion zsh > "\${fpath[1]}/_tidemark"
_tidemark() {
  local route="" word
  for word in "\${(@)words[2,CURRENT-1]}"; do
    [[ $word == -* ]] && break
    route="\${route:+$route }$word"
  done
  local -a found
  case "$route" in
${nodes
  .map(
    (node) =>
      `    "${node.path}") found=(${[...node.commands, ...node.options].map(({ name, summary }) => `'${name}:${summary}'`).join(" ")}) ;;`,
  )
  .join("\n")}
  esac
  _describe tidemark found || _files
}
compdef _tidemark tidemark
`,
  fish: (nodes: readonly Node[]) =>
    `# fish completion of tidemark: tidemark completion fish | source
function __tidemark_path
  set -l words (commandline -opc)
  set -l path
  for word in $words[2..-1]
    string match -q -- '-*' $word; and break
    set path $path $word
  end
  string join ' ' $path
end
${nodes
  .flatMap(({ path, commands, options }) => [
    ...commands.map(
      ({ name, summary }) =>
        `complete -c tidemark -f -n "test (__tidemark_path) = '${path}'" -a '${name}' -d '${summary}'`,
    ),
    ...options.map(
      ({ name, summary }) =>
        `complete -c tidemark -n "test (__tidemark_path) = '${path}'" -l '${name.slice(2)}' -d '${summary}'`,
    ),
  ])
  .join("\n")}
`,
};
