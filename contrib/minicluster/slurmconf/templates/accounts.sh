#!/bin/sh
# Who may use the cluster and with what right. Each line is one request, because
# sacctmgr stops reading its standard input at the first thing it does not know.
set -e
add() { sacctmgr -i add "$@"; }

add cluster {{.Name}}
add qos basic    set priority=0
add qos standard set priority=100{{if not .Controller}} preempt=basic preemptmode=requeue{{end}}
add qos premium  set priority=200{{if not .Controller}} preempt=basic,standard preemptmode=requeue{{end}}
add account research cluster={{.Name}} set qos=basic,standard,premium defaultqos=standard
add account teaching cluster={{.Name}} set qos=basic,standard,premium defaultqos=standard
add user alice    account=research
add user bob      account=teaching
add user operator account=research adminlevel=operator
{{- if .Controller}}
add user slurmrestd account=root adminlevel=operator
{{- end}}
sacctmgr -i modify account root set qos=basic,standard,premium defaultqos=standard
