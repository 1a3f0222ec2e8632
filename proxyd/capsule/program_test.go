// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	_ "embed" // the script
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

//go:embed testdata/table.txt
var script string

var update = flag.Bool("update", false, "write the transcripts anew")

// TestTable plays testdata/table.txt: each line is a call; the effects follow "----", in order.
func TestTable(t *testing.T) {
	var out strings.Builder
	table := newTable(nil)
	for block := range strings.SplitSeq(strings.TrimSpace(script), "\n\n") {
		if title, ok := strings.CutPrefix(block, "# "); ok {
			table = newTable([]syscall.Signal{syscall.SIGTERM, syscall.SIGCONT})
			fmt.Fprintf(&out, "# %s\n\n", title)
			continue
		}
		calls, _, _ := strings.Cut(block, "\n----")
		fmt.Fprintf(&out, "%s\n----\n", calls)
		for call := range strings.SplitSeq(calls, "\n") {
			playCall(t, &out, table, call)
		}
		out.WriteString("\n")
	}
	got := strings.TrimRight(out.String(), "\n") + "\n"
	if *update {
		if err := os.WriteFile("testdata/table.txt", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got != script && !*update {
		t.Errorf("the transcript now is:\n%s", got)
	}
}

func playCall(t *testing.T, out *strings.Builder, table *table, call string) {
	t.Helper()
	var op, name, cgroup string
	var n, m int
	words := strings.Fields(call)
	op = words[0]
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "name":
			name = value
		case "cgroup":
			cgroup = value
		case "conn", "pid":
			fmt.Sscan(value, &n)
		default:
			fmt.Sscan(value, &m)
		}
	}
	var all effects
	var err error
	switch op {
	case "start": // conn, pid of the steward
		all, err = table.startProgram(conn(n), Program{Name: name, PID: m, First: m + 1, UID: 1000, Cgroup: cgroup})
	case "restore":
		all, err = table.awaitRestore(conn(n), Program{Name: name, UID: 1000, Cgroup: cgroup})
	case "restored":
		all, err = table.joinRestored(name, n, n+1)
	case "swept":
		all = table.handleSweptCgroup(name)
	case "ended":
		some, _ := table.endedAfter("")
		fmt.Fprintln(out, some)
	case "forget":
		table.forgetStatus(name)
	case "reaped":
		all = table.handleReapedChild(n, syscall.WaitStatus(m))
	case "hangup":
		all = table.handleWardenHangup(conn(n))
	case "signal":
		all = table.requestSignal(conn(n), syscall.Signal(m))
	case "decide":
		all = table.sendWithheld()
	case "watch":
		for _, e := range table.firstEvents() {
			fmt.Fprintln(out, formatLine(tell{e}))
		}
	case "mark", "unmark":
		all, err = table.markCaptured(name, op == "mark")
	case "release":
		all, err = table.releaseCaptured(name, syscall.WaitStatus(m))
	case "force":
		all, err = table.forceSignal(name, syscall.Signal(m))
	default:
		t.Fatalf("unknown call %q", call)
	}
	for _, e := range all {
		fmt.Fprintln(out, formatLine(e))
	}
	if err != nil {
		fmt.Fprintln(out, "error:", err)
	}
}

var kindNames = map[uint32]string{kindGo: "GO", kindStatus: "STATUS", kindCaptured: "CAPTURED"}

func formatLine(e any) string {
	switch e := e.(type) {
	case say:
		return fmt.Sprintf("say conn=%d %s value=%d with=%d", e.to, kindNames[e.what.kind], e.what.value, e.with)
	case kill:
		if e.cgroup != "" {
			return "kill cgroup=" + e.cgroup
		}
		return fmt.Sprintf("kill steward=%d first=%d", e.pid, e.first)
	case sweep:
		return fmt.Sprintf("sweep %s cgroup=%s", e.name, e.cgroup)
	case send:
		return fmt.Sprintf("send steward=%d signal=%d", e.pid, int(e.sig))
	case tell:
		p := e.event.Program
		if e.event.Kind == SignalWithheld {
			return fmt.Sprintf("tell asked %s signal=%d", p.Name, int(e.event.Signal))
		}
		return fmt.Sprintf("tell %s %s captured=%v ended=%v warden=%v status=%d", e.event.Kind, p.Name, p.Captured, p.Ended, p.Warden, int(p.Status))
	}
	return fmt.Sprint(e)
}

// TestHeader: both ends of the wardens' protocol have the same numbers.
func TestHeader(t *testing.T) {
	const path = "../../slurm-spank/warden/message.h"
	b, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		t.Skip("SKIP: needs the source tree")
	}
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{
		"SING_VERSION": messageVersion, "SING_NAME_SIZE": nameSize,
		"SING_START": kindStart, "SING_RESTORE": kindRestore, "SING_SIGNAL": kindSignal,
		"SING_GO": kindGo, "SING_STATUS": kindStatus, "SING_CAPTURED": kindCaptured, "SING_REFUSED": kindRefused, "SING_INPUT": kindInput,
	}
	found := regexp.MustCompile(`(SING_[A-Z_]+) = (\d+)`).FindAllStringSubmatch(string(b), -1)
	for _, m := range found {
		if n, ok := want[m[1]]; !ok || fmt.Sprint(n) != m[2] {
			t.Errorf("%s is %s there and %d here", m[1], m[2], n)
		}
	}
	if len(found) != len(want) {
		t.Errorf("%d numbers there, %d here", len(found), len(want))
	}
	if !strings.Contains(string(b), fmt.Sprintf("#define SING_SOCKET %q", wardenSocket)) {
		t.Errorf("SING_SOCKET is not %q", wardenSocket)
	}
	if !strings.Contains(string(b), fmt.Sprintf("sizeof(struct sing_message) == %d", messageSize)) {
		t.Errorf("a message is not of %d bytes", messageSize)
	}
}
