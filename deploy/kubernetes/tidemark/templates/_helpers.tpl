{{- define "tidemark.name" -}}
{{- if contains .Chart.Name .Release.Name -}}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{- else -}}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}{{- end -}}
{{- end -}}

{{- define "tidemark.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tidemark.labels" -}}
{{ include "tidemark.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "tidemark.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* One process, one a shard, or the machines of a cluster. */}}
{{- define "tidemark.replicas" -}}
{{- if and .Values.shards .Values.cluster.replicas -}}
{{- fail "Set either shards or cluster.replicas, not both." -}}
{{- end -}}
{{- if and .Values.cluster.replicas (not .Values.config.cluster) -}}
{{- fail "cluster.replicas needs config.cluster: its name and brokers (docs/cluster.md)." -}}
{{- end -}}
{{- .Values.shards | default .Values.cluster.replicas | default 1 -}}
{{- end -}}

{{- define "tidemark.kind" -}}
{{- if and .Values.cluster.replicas (not .Values.cluster.persistent) -}}Deployment{{- else -}}StatefulSet{{- end -}}
{{- end -}}

{{/* The headless Service that gives each shard a name of its own. */}}
{{- define "tidemark.shards" -}}
{{ include "tidemark.name" . }}-shards
{{- end -}}

{{/* Where the archive is, if it has a volume of its own. */}}
{{- define "tidemark.archiveFolder" -}}
/var/lib/tidemark-archive
{{- end -}}

{{/* "yes" if the archive has a volume of its own. */}}
{{- define "tidemark.archiveVolume" -}}
{{- if and .Values.archive.enabled (not .Values.archive.s3) -}}yes{{- end -}}
{{- end -}}

{{/* The archive as a sink of the config. */}}
{{- define "tidemark.archiveSink" -}}
{{- if and .Values.cluster.replicas (not .Values.archive.s3) -}}
{{- fail "With cluster.replicas an archive needs archive.s3: another machine may continue it (docs/cluster.md)." -}}
{{- end -}}
{{- if not .Values.archive.origin -}}
{{- fail "archive.enabled needs archive.origin, for example example.com/audit-archive (docs/archive.md)." -}}
{{- end -}}
{{- $store := dict "directory" (include "tidemark.archiveFolder" .) -}}
{{- if .Values.archive.s3 -}}
{{- $store = dict "s3" .Values.archive.s3 -}}
{{- end -}}
{{- $sink := dict "name" .Values.archive.name "type" "archive" "origin" .Values.archive.origin "store" $store "key" (dict "file" "/run/tidemark/secrets/archive-key") -}}
{{- toYaml (merge $sink .Values.archive.settings) -}}
{{- end -}}

{{/* The config, with the Service's names added to the names that the server answers to, and the archive. */}}
{{- define "tidemark.config" -}}
{{- $name := include "tidemark.name" . -}}
{{- $own := list $name (printf "%s.%s" $name .Release.Namespace) (printf "%s.%s.svc" $name .Release.Namespace) (printf "%s.%s.svc.cluster.local" $name .Release.Namespace) -}}
{{- $config := deepCopy .Values.config -}}
{{- if .Values.shards -}}
{{- $shards := include "tidemark.shards" . -}}
{{- $namespace := .Release.Namespace -}}
{{- $port := $config.server.port -}}
{{- $addresses := list -}}
{{- range $index := until (int .Values.shards) -}}
{{- $host := printf "%s-%d.%s.%s.svc" $name $index $shards $namespace -}}
{{- $own = append $own $host -}}
{{- $addresses = append $addresses (printf "http://%s:%v" $host $port) -}}
{{- end -}}
{{- $_ := set $config "shard" (printf "auto/%d" (int .Values.shards)) -}}
{{- if not $config.server.peers -}}
{{- $_ := set $config.server "peers" (dict "addresses" $addresses "token" ($config.server.readToken | default $config.server.token) "plainHttp" true) -}}
{{- end -}}
{{- end -}}
{{- $hosts := concat $own (.Values.hosts | default list) ($config.server.hosts | default list) | uniq -}}
{{- $_ := set $config.server "hosts" $hosts -}}
{{- if .Values.archive.enabled -}}
{{- $_ := set $config "sinks" (append $config.sinks (include "tidemark.archiveSink" . | fromYaml)) -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}
