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

{{/* The config, with the Service's names added to the names that the server answers to. */}}
{{- define "tidemark.config" -}}
{{- $name := include "tidemark.name" . -}}
{{- $own := list $name (printf "%s.%s" $name .Release.Namespace) (printf "%s.%s.svc" $name .Release.Namespace) (printf "%s.%s.svc.cluster.local" $name .Release.Namespace) -}}
{{- $config := deepCopy .Values.config -}}
{{- $hosts := concat $own (.Values.hosts | default list) ($config.server.hosts | default list) | uniq -}}
{{- $_ := set $config.server "hosts" $hosts -}}
{{- toYaml $config -}}
{{- end -}}
