// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/criu"
)

// The kernel lets a thread be traced (ptrace) once at a time. CRIU traces all threads of a program that it dumps, so it
// cannot dump a program under a debugger or strace, and finds that out when the whole job is frozen.

// maxTracedThreads bounds the threads of a process of which the tracer is looked up. gdb and strace trace all threads of a
// process, or the first.
const maxTracedThreads = 64

// criuName is the name of CRIU's processes. CRIU traces programs while it dumps or restores them.
const criuName = "criu"

// describeTracer says in a user's words that a debugger or the like traces a process of the capsule with this init.
// what is "" for another process, and for a process that this daemon or CRIU traces.
func describeTracer(init, pid int) (what, cure string) {
	tracer := tracerOf(pid)
	if tracer == 0 {
		return "", ""
	}
	name := commandName(tracer)
	if name == criuName || statusField(strconv.Itoa(tracer), "Tgid") == strconv.Itoa(os.Getpid()) {
		return "", ""
	}
	if len(namespacePIDs(tracer)) >= len(namespacePIDs(init)) {
		return "is traced by " + name, criu.CureDebugger
	}
	return fmt.Sprintf("is traced from outside of the job, by %s (PID %d of the node)", name, tracer), criu.CureOutsideTracer
}

// tracerOf returns the thread that traces a thread of a process, in this daemon's PID namespace; 0 if there is none.
func tracerOf(pid int) int {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	d, err := os.Open(dir)
	if err != nil {
		return 0 // the process has ended
	}
	defer d.Close()
	threads, _ := d.Readdirnames(maxTracedThreads) // after an error those that were read count
	for _, thread := range threads {
		if tracer, err := strconv.Atoi(statusField(fmt.Sprintf("%d/task/%s", pid, thread), "TracerPid")); err == nil && tracer != 0 {
			return tracer
		}
	}
	return 0
}

// statusField returns the value of a line of a thread's status; "" if the thread has ended.
func statusField(thread, name string) string {
	b, _ := os.ReadFile("/proc/" + thread + "/status")
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
