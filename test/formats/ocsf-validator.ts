import { reference } from "./reference.ts";

interface Attribute {
  readonly type: string;
  readonly object_type?: string;
  readonly is_array?: boolean;
  readonly requirement: "required" | "recommended" | "optional";
  readonly enum?: Readonly<Record<string, string>>;
  readonly sibling?: string;
  readonly profiles?: readonly string[];
  readonly deprecated?: string;
}

interface Definition {
  readonly uid?: number;
  readonly caption: string;
  readonly category_uid?: number;
  readonly category_name?: string;
  readonly profiles?: readonly string[];
  readonly attributes: Readonly<Record<string, Attribute>>;
  readonly constraints?: { readonly at_least_one?: readonly string[]; readonly just_one?: readonly string[] };
}

interface TypeDefinition {
  readonly type?: string;
  readonly regex?: string;
  readonly max_len?: number;
  readonly range?: readonly [number, number];
}

interface Schema {
  readonly version: string;
  readonly types: Readonly<Record<string, TypeDefinition>>;
  readonly classes: Readonly<Record<string, Definition>>;
  readonly objects: Readonly<Record<string, Definition>>;
}

/** Holds an event against the schema: everything that is wrong with it, in words; empty when it is valid. */
export function ocsfValidator(): (event: unknown) => string[] {
  const schema = reference<Schema>("ocsf-1.8.0.json");
  const classes = new Map(Object.values(schema.classes).map((one) => [one.uid, one]));
  const patterns = new Map(
    Object.entries(schema.types).flatMap(([name, type]) =>
      type.regex === undefined ? [] : [[name, new RegExp(type.regex)]],
    ),
  );

  const required = new Map<Definition, [string, Attribute][]>();
  function requiredOf(definition: Definition): [string, Attribute][] {
    const known = required.get(definition);
    if (known) return known;
    const found = Object.entries(definition.attributes).filter(
      ([, attribute]) => attribute.requirement === "required",
    );
    required.set(definition, found);
    return found;
  }

  return (event) => {
    const faults: string[] = [];
    if (!isObject(event)) return ["the event is no object"];
    const definition = classes.get(event.class_uid as number);
    if (definition === undefined) return [`there is no class ${event.class_uid}`];
    const metadata = isObject(event.metadata) ? event.metadata : {};
    const profiles = (metadata.profiles as string[] | undefined) ?? [];
    for (const profile of profiles)
      if (!definition.profiles?.includes(profile))
        faults.push(`the class does not know the profile ${profile}`);
    if (metadata.version !== schema.version) faults.push(`metadata.version is ${metadata.version}`);
    header(event, definition, faults);
    check(event, definition, "", profiles, faults);
    return faults;
  };

  function header(event: Fields, definition: Definition, faults: string[]): void {
    const activity = definition.attributes.activity_id?.enum?.[String(event.activity_id)];
    const expected: Fields = {
      class_name: definition.caption,
      category_uid: definition.category_uid,
      category_name: definition.category_name,
      type_uid: (event.class_uid as number) * 100 + (event.activity_id as number),
      type_name: `${definition.caption}: ${activity}`,
    };
    for (const [key, value] of Object.entries(expected))
      if (event[key] !== value) faults.push(`${key} is ${event[key]} instead of ${value}`);
  }

  function check(
    value: Fields,
    definition: Definition,
    path: string,
    profiles: readonly string[],
    faults: string[],
  ): void {
    for (const [name, attribute] of requiredOf(definition)) {
      const applies = !attribute.profiles || attribute.profiles.some((one) => profiles.includes(one));
      if (applies && value[name] === undefined) faults.push(`${path}${name} is required`);
    }
    for (const [name, held] of Object.entries(value)) {
      const attribute = definition.attributes[name];
      if (attribute === undefined) {
        faults.push(`${path}${name} is not an attribute of ${definition.caption}`);
        continue;
      }
      if (attribute.profiles && !attribute.profiles.some((one) => profiles.includes(one)))
        faults.push(`${path}${name} needs one of the profiles ${attribute.profiles}`);
      if (attribute.deprecated) faults.push(`${path}${name} is deprecated`);
      checkAttribute(held, attribute, `${path}${name}`, profiles, faults);
      checkSibling(value, name, attribute, path, faults);
    }
    constraints(value, definition, path, faults);
  }

  function constraints(value: Fields, { constraints: rules }: Definition, path: string, faults: string[]) {
    const some = rules?.at_least_one;
    if (some && !some.some((name) => value[name] !== undefined))
      faults.push(`${path || "the event "} needs one of ${some}`);
    const one = rules?.just_one;
    if (one && one.filter((name) => value[name] !== undefined).length !== 1)
      faults.push(`${path || "the event "} needs exactly one of ${one}`);
  }

  function checkSibling(value: Fields, name: string, attribute: Attribute, path: string, faults: string[]) {
    if (!attribute.sibling || !attribute.enum || value[name] === 99) return;
    const caption = attribute.enum[String(value[name])];
    const given = value[attribute.sibling];
    if (given !== undefined && given !== caption)
      faults.push(`${path}${attribute.sibling} is ${given} although ${name} means ${caption}`);
  }

  function checkAttribute(
    value: unknown,
    attribute: Attribute,
    path: string,
    profiles: readonly string[],
    faults: string[],
  ): void {
    if (attribute.is_array) {
      if (!Array.isArray(value)) {
        faults.push(`${path} is no array`);
        return;
      }
      value.forEach((element, at) => {
        checkAttribute(element, { ...attribute, is_array: false }, `${path}[${at}]`, profiles, faults);
      });
      return;
    }
    if (attribute.type === "object_t") {
      if (!isObject(value)) faults.push(`${path} is no object`);
      else if (attribute.object_type !== "object")
        check(value, schema.objects[attribute.object_type!]!, `${path}.`, profiles, faults);
      return;
    }
    checkScalar(value, attribute.type, path, faults);
    if (attribute.enum && !Object.hasOwn(attribute.enum, String(value)))
      faults.push(`${path} is ${value}, which the enum does not know`);
  }

  function checkScalar(value: unknown, typeName: string, path: string, faults: string[]): void {
    const type = schema.types[typeName]!;
    switch (type.type ?? typeName) {
      case "string_t":
        if (typeof value !== "string") faults.push(`${path} is no string`);
        break;
      case "integer_t":
      case "long_t":
        if (!Number.isSafeInteger(value)) faults.push(`${path} is no integer`);
        break;
      case "float_t":
        if (typeof value !== "number") faults.push(`${path} is no number`);
        break;
      case "boolean_t":
        if (typeof value !== "boolean") faults.push(`${path} is no boolean`);
        break;
      case "json_t":
        break;
      default:
        faults.push(`${path} has the unknown type ${typeName}`);
    }
    const pattern = patterns.get(typeName);
    if (pattern && typeof value === "string" && !pattern.test(value))
      faults.push(`${path} is no ${typeName}: ${value}`);
    if (type.max_len !== undefined && String(value).length > type.max_len) faults.push(`${path} is too long`);
    if (type.range && !((value as number) >= type.range[0] && (value as number) <= type.range[1]))
      faults.push(`${path} is out of range`);
  }
}

type Fields = Record<string, unknown>;

function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
