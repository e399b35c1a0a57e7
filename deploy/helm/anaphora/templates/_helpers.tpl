{{- define "anaphora.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "anaphora.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- /* What each object is called and labelled: (dict "root" . "component" "server"). */ -}}
{{- define "anaphora.metadata" -}}
name: {{ include "anaphora.name" .root }}-{{ .component }}
labels:
  {{- include "anaphora.selector" . | nindent 2 }}
  app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .root.Release.Service }}
  helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{- define "anaphora.locked" -}}
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
{{- end }}

{{- define "anaphora.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
volumes:
  - name: home
    persistentVolumeClaim:
      claimName: {{ .Values.home.existingClaim | default (printf "%s-home" (include "anaphora.name" .)) }}
  - name: tmp
    emptyDir: {}
  {{- with .Values.volumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "anaphora.container" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  {{- include "anaphora.locked" . | nindent 2 }}
  readOnlyRootFilesystem: true
envFrom:
  - configMapRef: {name: {{ include "anaphora.name" . }}-settings}
  - secretRef: {name: {{ include "anaphora.name" . }}-secrets}
  {{- with .Values.existingSecret }}
  - secretRef: {name: {{ . }}}
  {{- end }}
volumeMounts:
  - {name: home, mountPath: /home/anaphora}
  - {name: tmp, mountPath: /tmp}
  {{- with .Values.volumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- /* A home of one node: what works beside the servers has to be on theirs. */ -}}
{{- define "anaphora.beside" -}}
{{- if not (has "ReadWriteMany" .Values.home.accessModes) }}
affinity:
  podAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "anaphora.selector" (dict "root" . "component" "server") | nindent 12 }}
{{- end }}
{{- end }}
