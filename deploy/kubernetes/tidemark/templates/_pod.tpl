{{/* The pod of the StatefulSet or the Deployment. */}}
{{- define "tidemark.pod" -}}
metadata:
  labels: {{- include "tidemark.labels" . | nindent 4 }}
  annotations:
    # A changed config starts the pod anew.
    checksum/config: {{ include "tidemark.config" . | sha256sum }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "tidemark.name" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: 60
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 1000
    runAsGroup: 1000
    fsGroup: 1000
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: { type: RuntimeDefault }
  initContainers:
    # fsGroup lets the user write to the volume, and makes secret files readable by that group, which
    # Tidemark refuses. So they are copied, in memory, to files of the user's own with mode 0400.
    - name: secrets
      image: {{ include "tidemark.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      {{- if .Values.archive.enabled }}
      command: [sh, -c, "install -m 0400 -t /run/tidemark/secrets /run/tidemark/mounted/* && install -m 0400 /run/tidemark/mounted-archive/key /run/tidemark/secrets/archive-key"]
      {{- else }}
      command: [sh, -c, "install -m 0400 -t /run/tidemark/secrets /run/tidemark/mounted/*"]
      {{- end }}
      securityContext: &container
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: { drop: [ALL] }
      resources:
        requests: { cpu: 10m, memory: 16Mi }
        limits: { memory: 64Mi }
      volumeMounts:
        - { name: mounted-secrets, mountPath: /run/tidemark/mounted, readOnly: true }
        {{- if .Values.archive.enabled }}
        - { name: mounted-archive-key, mountPath: /run/tidemark/mounted-archive, readOnly: true }
        {{- end }}
        - { name: secrets, mountPath: /run/tidemark/secrets }
  containers:
    - name: tidemark
      image: {{ include "tidemark.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [run, --config, /etc/tidemark/tidemark.yaml]
      {{- if or .Values.shards .Values.extraEnv }}
      env:
        {{- if .Values.shards }}
        # The pod's name ends with its number, which is its shard.
        - name: TIDEMARK_SHARD
          valueFrom: { fieldRef: { fieldPath: metadata.name } }
        {{- end }}
        {{- with .Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
      ports:
        - { name: http, containerPort: {{ .Values.config.server.port }} }
      # Alive means that the process answers. A paused sink is degraded, not dead: it stays ready.
      startupProbe:
        httpGet: { path: /livez, port: http }
        periodSeconds: 2
        failureThreshold: 60
      livenessProbe:
        httpGet: { path: /livez, port: http }
        periodSeconds: 20
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: { path: /readyz, port: http }
        periodSeconds: 10
        timeoutSeconds: 5
      resources: {{- toYaml .Values.resources | nindent 8 }}
      securityContext: *container
      volumeMounts:
        - { name: config, mountPath: /etc/tidemark, readOnly: true }
        - { name: secrets, mountPath: /run/tidemark/secrets, readOnly: true }
        - { name: state, mountPath: /var/lib/tidemark }
        {{- if include "tidemark.archiveVolume" . }}
        - { name: archive, mountPath: {{ include "tidemark.archiveFolder" . }} }
        {{- end }}
        - { name: tmp, mountPath: /tmp }
  volumes:
    - name: config
      configMap: { name: {{ include "tidemark.name" . }} }
    - name: mounted-secrets
      secret: { secretName: {{ .Values.existingSecret }}, defaultMode: 256 } # 0400
    {{- if .Values.archive.enabled }}
    - name: mounted-archive-key
      secret:
        secretName: {{ .Values.archive.existingSecret | default .Values.existingSecret }}
        defaultMode: 256 # 0400
        items: [{ key: {{ .Values.archive.secretKey }}, path: key }]
    {{- end }}
    - name: secrets
      emptyDir: { medium: Memory, sizeLimit: 1Mi }
    - name: tmp
      emptyDir: { sizeLimit: 256Mi }
    {{- if eq (include "tidemark.kind" .) "Deployment" }}
    # Kafka holds the state; what is here is a copy that any pod can make again.
    - name: state
      emptyDir: { sizeLimit: {{ .Values.persistence.size }} }
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
