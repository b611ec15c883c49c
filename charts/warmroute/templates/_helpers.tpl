{{/* Labels and selectors are those of kthena's chart: Services, ServiceMonitors and scripts of users select by them. */}}
{{- define "warmroute.selectorLabels" -}}
app.kubernetes.io/name: networking
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "warmroute.commonLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "warmroute.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "warmroute.labels" -}}
app.kubernetes.io/component: kthena-router
{{ include "warmroute.commonLabels" . }}
{{- end }}

{{- define "warmroute.selector" -}}
app.kubernetes.io/component: kthena-router
{{ include "warmroute.selectorLabels" . }}
{{- end }}

{{/* Non-empty when the admission webhook is on. */}}
{{- define "warmroute.webhook" -}}
{{- $router := .Values.networking.kthenaRouter -}}
{{- if and $router.enabled $router.webhook.enabled }}on{{ end -}}
{{- end }}

{{/* The Secret for TLS on the inference port; empty: clear text. */}}
{{- define "warmroute.tlsSecret" -}}
{{- $tls := .Values.networking.kthenaRouter.tls -}}
{{- if $tls.existingSecret -}}
{{ $tls.existingSecret }}
{{- else if and $tls.enabled (eq .Values.global.certManagementMode "cert-manager") -}}
{{ $tls.secretName }}
{{- end -}}
{{- end }}

{{/* The folder of an access-log file, which a read-only root needs a volume for; empty: no file. */}}
{{- define "warmroute.accessLogFolder" -}}
{{- $log := .Values.networking.kthenaRouter.accessLog -}}
{{- if and $log.enabled (not (has $log.output (list "stdout" "stderr" ""))) -}}
{{- if or (not (hasPrefix "/" $log.output)) (has (dir $log.output) (list "/" "/etc/config" "/etc/tls" "/etc/router-tls")) -}}
{{- fail (printf "accessLog.output %s: a file needs an absolute path in a folder of its own" $log.output) -}}
{{- end -}}
{{ dir $log.output }}
{{- end -}}
{{- end }}
