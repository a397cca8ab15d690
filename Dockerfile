# syntax=docker/dockerfile:1
# The release workflow looks both digests up and passes them, as node:24-bookworm@sha256:…, so that a release
# names its bases exactly. A build by hand takes the newest of each tag.
ARG BUILD_IMAGE=node:24-bookworm
ARG NODE_IMAGE=node:24-bookworm-slim

# Compilers live in this stage only. No binary is downloaded from elsewhere: zstd-napi is built from the sources
# that the lockfile pins, better-sqlite3-13 brings its binary inside the package that the lockfile pins.
FROM ${BUILD_IMAGE} AS build
ENV npm_config_build_from_source=true npm_config_update_notifier=false
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json ./
COPY wasm ./wasm
COPY scripts ./scripts
COPY simulator ./simulator
COPY src ./src
# Compiler output and the SQLite binding for older Nodes are not shipped.
RUN npm run build && npm prune --omit=dev --no-audit --no-fund && \
    rm -rf node_modules/better-sqlite3 node_modules/*/deps node_modules/*/build/Release/obj node_modules/*/build/Release/obj.target

FROM ${NODE_IMAGE}
LABEL org.opencontainers.image.title="Tidemark" \
      org.opencontainers.image.description="Pulls every audit event out of a directory service, delivers it everywhere, and shows that nothing is missing." \
      org.opencontainers.image.licenses="Apache-2.0"
ENV NODE_ENV=production
WORKDIR /app
COPY package.json LICENSE ./
COPY --from=build /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
# Everything that is written goes below the first folder; the rest of the file system may be read-only. The second
# is for an archive on a volume of its own.
RUN install -d -o node -g node -m 0700 /var/lib/tidemark /var/lib/tidemark-archive
VOLUME /var/lib/tidemark
WORKDIR /var/lib/tidemark
USER 1000:1000
EXPOSE 9464
# The server must be in the config; at another address than the default, set TIDEMARK_LIVEZ.
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 \
  CMD ["node", "-e", "fetch(process.env.TIDEMARK_LIVEZ ?? 'http://127.0.0.1:9464/livez').then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "/app/dist/src/main.js"]
CMD ["run", "--config", "/etc/tidemark/tidemark.yaml"]
