/** The topics of a cluster. Every one has a partition for each lane, except `machines`. */
export interface ClusterTopics {
  /** The rows of the lanes' state files, compacted. */
  readonly state: string;
  /** The bytes of pages. */
  readonly pages: string;
  /** Without records: the group's members divide its partitions among them. */
  readonly lanes: string;
  /** Requests of people to a lane. */
  readonly requests: string;
  /** The newest summary of every machine, and the answers to requests, compacted. */
  readonly machines: string;
}

export function topicsOf(name: string): ClusterTopics {
  return {
    state: `${name}.state`,
    pages: `${name}.pages`,
    lanes: `${name}.lanes`,
    requests: `${name}.requests`,
    machines: `${name}.machines`,
  };
}
