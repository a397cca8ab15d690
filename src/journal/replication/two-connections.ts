import type Database from "better-sqlite3";

/**
 * One database object over two connections to a file (C1). Inside a change statements run on the writer and see what the
 * change has done so far. Everywhere else they run on a connection that cannot write and sees committed rows only, also
 * while a change waits for the log.
 */
export function joinConnections(
  writer: Database.Database,
  reader: Database.Database,
  isInChange: () => boolean,
): Database.Database {
  reader.pragma("query_only = ON");
  const prepare = (sql: string) => new TwoStatements(sql, writer, reader, isInChange);
  return new Proxy(reader, {
    get(_, name) {
      if (name === "prepare") return prepare;
      if (name === "close") {
        return () => {
          if (writer.inTransaction) writer.exec("ROLLBACK");
          writer.close();
          reader.close();
        };
      }
      const target = isInChange() ? writer : reader;
      const value = Reflect.get(target, name, target) as unknown;
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

/** A statement on either connection, compiled where it is first used. */
class TwoStatements {
  readonly #sql: string;
  readonly #writer: Database.Database;
  readonly #reader: Database.Database;
  readonly #isInChange: () => boolean;
  #onWriter: Database.Statement | undefined;
  #onReader: Database.Statement | undefined;
  #mode: "rows" | "pluck" | "raw" = "rows";

  constructor(sql: string, writer: Database.Database, reader: Database.Database, isInChange: () => boolean) {
    this.#sql = sql;
    this.#writer = writer;
    this.#reader = reader;
    this.#isInChange = isInChange;
    // A wrong statement fails where it is written, as on one connection.
    this.#statement();
  }

  #statement(): Database.Statement {
    if (this.#isInChange()) {
      this.#onWriter ??= this.#compile(this.#writer);
      return this.#onWriter;
    }
    this.#onReader ??= this.#compile(this.#reader);
    return this.#onReader;
  }

  #compile(db: Database.Database): Database.Statement {
    const statement = db.prepare(this.#sql);
    if (this.#mode === "rows") return statement;
    return this.#mode === "pluck" ? statement.pluck() : statement.raw();
  }

  pluck(): this {
    this.#mode = "pluck";
    this.#onWriter?.pluck();
    this.#onReader?.pluck();
    return this;
  }
  raw(): this {
    this.#mode = "raw";
    this.#onWriter?.raw();
    this.#onReader?.raw();
    return this;
  }
  run(...values: unknown[]): Database.RunResult {
    return this.#statement().run(...values);
  }
  get(...values: unknown[]): unknown {
    return this.#statement().get(...values);
  }
  all(...values: unknown[]): unknown[] {
    return this.#statement().all(...values);
  }
  iterate(...values: unknown[]): IterableIterator<unknown> {
    return this.#statement().iterate(...values);
  }
}
