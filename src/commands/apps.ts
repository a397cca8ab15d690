import type { Command } from "commander";
import { UsageError } from "../core/errors.ts";
import type { ApplicationRow, NewApplication } from "../directory/management/applications.ts";
import type { Io } from "./io.ts";
import {
  type AccountFlags,
  accountOf,
  assignmentsOf,
  callOptions,
  collect,
  type OpenManagement,
  printJson,
  printTable,
  readJsonObject,
  subcommand,
  using,
  withAccount,
} from "./management.ts";

interface ChangeFlags extends AccountFlags {
  readonly file?: string;
  readonly set: readonly string[];
}

interface ListFlags extends AccountFlags {
  readonly fields?: string;
  readonly filter?: string;
  readonly sort?: string;
}

interface BindFlags extends AccountFlags {
  readonly user?: string;
  readonly group?: string;
}

/** `tidemark apps`: applications and whom they are bound to. */
export function registerApps(program: Command, io: Io, open: OpenManagement): void {
  const apps = program
    .command("apps")
    .description("list, make and change applications, and bind users to them");
  const add = (name: string, summary: string, example: string) =>
    withAccount(subcommand(apps, name, summary, `tidemark apps ${example}`));

  listOptions(add("list", "list applications", "list --filter active:true --sort -created")).action(
    (flags: ListFlags) => list(io, open, flags),
  );
  const many = add("templates", "list templates to make applications from", "templates --filter name:slack");
  listOptions(many).action((flags: ListFlags) => templates(io, open, flags));
  withAccount(
    subcommand(many, "show <id>", "show one template", "tidemark apps templates show 6f00aa"),
  ).action((id: string, _: AccountFlags, command: Command) =>
    // The parent takes the options that it knows, wherever they are written.
    template(io, open, id, command.optsWithGlobals()),
  );
  add("show <id>", "show one application", "show 6f00aa").action((id: string, flags: AccountFlags) =>
    show(io, open, id, flags),
  );
  add("create", "make an application", "create --file app.json")
    .requiredOption("--file <file>", "the application as JSON; - reads stdin")
    .action((flags: ChangeFlags) => create(io, open, flags));
  add(
    "update <id>",
    "change fields of an application, leaving the others as they are",
    "update 6f00aa --set active=false",
  )
    .option("--file <file>", "the changes as JSON; - reads stdin")
    .option("--set <field=value>", "one change; may be repeated", collect, [])
    .action((id: string, flags: ChangeFlags) => update(io, open, id, flags));
  add("delete <id>", "delete an application", "delete 6f00aa --yes")
    .option("--yes", "really delete it")
    .action((id: string, flags: AccountFlags & { yes?: boolean }) => remove(io, open, id, flags));
  for (const [name, operation] of [
    ["bind", "add"],
    ["unbind", "remove"],
  ] as const) {
    add(`${name} <id>`, `${name} a user or a group of users`, `${name} 6f00aa --group 5e11bb`)
      .option("--user <id>", "the user")
      .option("--group <id>", "the group of users")
      .action((id: string, flags: BindFlags) => bind(io, open, id, operation, flags));
  }
  add("bound <id>", "list who is bound to an application", "bound 6f00aa").action(
    (id: string, flags: AccountFlags) => bound(io, open, id, flags),
  );
}

function listOptions(command: Command): Command {
  return command
    .option("--fields <names>", "only these fields, separated by commas; prints JSON")
    .option("--filter <expression>", "a filter as the service understands it, such as name:$eq:slack")
    .option("--sort <fields>", "fields to sort by, separated by commas; - before a name reverses it");
}

function listQuery(flags: ListFlags, io: Io) {
  const names = (text: string) => text.split(/[\s,]+/).filter((name) => name !== "");
  return {
    ...callOptions(flags, io),
    ...(flags.fields === undefined ? {} : { fields: names(flags.fields) }),
    ...(flags.filter === undefined ? {} : { filter: flags.filter }),
    ...(flags.sort === undefined ? {} : { sort: names(flags.sort) }),
  };
}

function list(io: Io, open: OpenManagement, flags: ListFlags): Promise<void> {
  return using(open, flags, async (context) => {
    const found: ApplicationRow[] = [];
    const client = context.management(accountOf(context, flags));
    for await (const application of client.applications(listQuery(flags, io)))
      found.push(withoutKey(application));
    if (flags.json || flags.fields !== undefined) return printJson(io, found);
    printTable(
      io,
      ["ID", "NAME", "LABEL", "ACTIVE"],
      found.map((one) => [one._id, one.name, one.displayLabel ?? one.displayName, yesNo(one.active)]),
    );
  });
}

function template(io: Io, open: OpenManagement, id: string, flags: AccountFlags): Promise<void> {
  return using(open, flags, async (context) => {
    const client = context.management(accountOf(context, flags));
    printJson(io, await client.applicationTemplate(id, callOptions(flags, io)));
  });
}

function templates(io: Io, open: OpenManagement, flags: ListFlags): Promise<void> {
  return using(open, flags, async (context) => {
    const found = [];
    const client = context.management(accountOf(context, flags));
    for await (const one of client.applicationTemplates(listQuery(flags, io))) found.push(one);
    if (flags.json || flags.fields !== undefined) return printJson(io, found);
    printTable(
      io,
      ["ID", "NAME", "DISPLAY NAME"],
      found.map((one) => [one._id, one.name, one.displayName]),
    );
  });
}

function show(io: Io, open: OpenManagement, id: string, flags: AccountFlags): Promise<void> {
  return using(open, flags, async (context) => {
    const client = context.management(accountOf(context, flags));
    printJson(io, withoutKey(await client.application(id, callOptions(flags, io))));
  });
}

/** The service shows the identity provider's private key, which must not reach a terminal. */
function withoutKey(application: ApplicationRow): ApplicationRow {
  const config = application.config;
  if (!config?.idpPrivateKey) return application;
  return { ...application, config: { ...config, idpPrivateKey: "[secret]" } };
}

function create(io: Io, open: OpenManagement, flags: ChangeFlags): Promise<void> {
  return using(open, flags, async (context) => {
    const application = await readJsonObject(flags.file ?? "-", io);
    const missing = ["name", "displayLabel", "displayName", "ssoUrl", "config"].filter(
      (field) => application[field] === undefined,
    );
    if (missing.length > 0) throw new UsageError(`The application needs ${missing.join(", ")}.`);
    const client = context.management(accountOf(context, flags));
    const made = await client.createApplication(application as NewApplication, callOptions(flags, io));
    tell(io, flags, withoutKey(made), `Application ${made._id} made.`);
  });
}

function update(io: Io, open: OpenManagement, id: string, flags: ChangeFlags): Promise<void> {
  return using(open, flags, async (context) => {
    if (flags.file === undefined && flags.set.length === 0) {
      throw new UsageError("Say what to change: --set field=value or --file FILE.");
    }
    const fromFile = flags.file === undefined ? {} : await readJsonObject(flags.file, io);
    const changes = { ...fromFile, ...assignmentsOf(flags.set) };
    const client = context.management(accountOf(context, flags));
    const changed = await client.updateApplication(id, changes, callOptions(flags, io));
    tell(
      io,
      flags,
      withoutKey(changed),
      `Application ${changed._id} changed: ${Object.keys(changes).join(", ")}.`,
    );
  });
}

function remove(
  io: Io,
  open: OpenManagement,
  id: string,
  flags: AccountFlags & { yes?: boolean },
): Promise<void> {
  return using(open, flags, async (context) => {
    const client = context.management(accountOf(context, flags));
    if (flags.yes !== true) {
      const { displayLabel, name } = await client.application(id, callOptions(flags, io));
      throw new UsageError(
        `This deletes the application ${displayLabel ?? name ?? id} and all its bindings; repeat it with --yes.`,
      );
    }
    const gone = await client.deleteApplication(id, callOptions(flags, io));
    tell(io, flags, withoutKey(gone), `Application ${gone._id} deleted.`);
  });
}

function bind(
  io: Io,
  open: OpenManagement,
  id: string,
  operation: "add" | "remove",
  flags: BindFlags,
): Promise<void> {
  return using(open, flags, async (context) => {
    const target = targetOf(flags);
    const client = context.management(accountOf(context, flags));
    await client.associateApplication(id, operation, target, callOptions(flags, io));
    const done = operation === "add" ? "bound to" : "no longer bound to";
    tell(
      io,
      flags,
      { application: id, operation, ...target },
      `The ${target.type.replace("_", " ")} ${target.id} is ${done} ${id}.`,
    );
  });
}

function targetOf(flags: BindFlags): { type: "user" | "user_group"; id: string } {
  if (!flags.user === !flags.group) throw new UsageError("Name either --user or --group.");
  return flags.user ? { type: "user", id: flags.user } : { type: "user_group", id: flags.group ?? "" };
}

function bound(io: Io, open: OpenManagement, id: string, flags: AccountFlags): Promise<void> {
  return using(open, flags, async (context) => {
    const client = context.management(accountOf(context, flags));
    const options = callOptions(flags, io);
    const associations = [
      ...(await client.applicationAssociations(id, "user_group", options)),
      ...(await client.applicationAssociations(id, "user", options)),
    ];
    const users = [];
    for await (const user of client.applicationUsers(id, options)) users.push(user);
    if (flags.json) return printJson(io, { associations, users });
    printTable(
      io,
      ["TYPE", "ID"],
      associations.map(({ to }) => [to.type, to.id]),
    );
    io.stdout.write(`${users.length} users see the application.\n`);
  });
}

function tell(io: Io, flags: AccountFlags, value: unknown, words: string): void {
  if (flags.json) printJson(io, value);
  else io.stdout.write(`${words}\n`);
}

function yesNo(value: boolean | null | undefined): string {
  return value === true ? "yes" : value === false ? "no" : "";
}
