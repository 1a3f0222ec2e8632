// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// listening is a program that prints each signal of the program or its child, until SIGQUIT. The program waits in
// sigsuspend, because a shell that reads can miss a trap.
const listening = `
use POSIX; $| = 1; my $who = "child"; my $end = 0;
my @heard = qw(TERM USR1 USR2 HUP INT CONT);
POSIX::sigprocmask(SIG_SETMASK, do { my $s = POSIX::SigSet->new; $s->fillset; $s });
for my $name (@heard) { $SIG{$name} = sub { print "$who $name\n" } }
$SIG{QUIT} = sub { $end = 1 };
my $child = fork; $who = "first" if $child;
print "$who is up\n";
POSIX::sigsuspend(POSIX::SigSet->new) until $end;
exit 0 unless $child;
kill 9, $child; waitpid $child, 0; exit 5`

func TestSignals(t *testing.T) {
	c := newCapsule(t)
	for _, k := range []struct {
		options []string
		both    []syscall.Signal
		first   []syscall.Signal
	}{
		{nil, []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT}, []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGHUP, syscall.SIGINT}},
		{[]string{"--all"}, []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGHUP}, nil},
	} {
		t.Run(fmt.Sprint(k.options), func(t *testing.T) {
			r := task{c: c, options: k.options, argv: []string{"perl", "-e", listening}}.startTask(t)
			for range 2 { // both processes are up
				r.out.nextLine()
			}
			for range 20 {
				for _, sig := range append(slices.Clone(k.first), k.both...) {
					name := strings.TrimPrefix(unixName(sig), "SIG")
					r.sendSignal(sig)
					expected := []string{"first " + name}
					if slices.Contains(k.both, sig) {
						expected = append(expected, "child "+name)
					}
					var heard []string
					for range expected {
						line, _ := r.out.nextLine()
						heard = append(heard, line)
					}
					slices.Sort(heard)
					slices.Sort(expected)
					if !slices.Equal(heard, expected) {
						t.Fatalf("after %s: heard %q, want %q", name, heard, expected)
					}
				}
			}
			r.sendSignal(syscall.SIGQUIT)
			if rest := r.out.readToEnd(); len(rest) > 0 {
				t.Errorf("heard more than was sent: %q", rest)
			}
			if status := r.waitForEnd(); status != 5<<8 {
				t.Errorf("status of the program = %#x, want exit code 5", int(status))
			}
		})
	}
}

func unixName(sig syscall.Signal) string {
	return map[syscall.Signal]string{
		syscall.SIGTERM: "TERM", syscall.SIGCONT: "CONT", syscall.SIGUSR1: "USR1", syscall.SIGUSR2: "USR2", syscall.SIGHUP: "HUP", syscall.SIGINT: "INT",
	}[sig]
}

// TestTerminatedBefore: the program gets a SIGTERM that came before the warden was there.
func TestTerminatedBefore(t *testing.T) {
	r := task{c: newCapsule(t), options: []string{"--all", "--terminated"}, argv: []string{"sleep", "1000"}}.startTask(t)
	if status := r.waitForEnd(); status != syscall.WaitStatus(syscall.SIGTERM) {
		t.Errorf("status of the program = %#x, want death by SIGTERM", int(status))
	}
}

// TestSuspend: Slurm sends TSTP, and later STOP, which reaches the warden only.
func TestSuspend(t *testing.T) {
	c := newCapsule(t)
	r := task{c: c, argv: shellCommand("echo ready; while read -r line; do echo $line; done")}.startTask(t)
	r.out.expectLine("ready")
	first := hostPID(t, c, programNamed(t, c, "batch").First)
	r.sendSignal(syscall.SIGTSTP)
	for stateOf(t, first) != 'T' {
		time.Sleep(10 * time.Millisecond) // a change of state has no event
	}
	r.sendSignal(syscall.SIGCONT)
	fmt.Fprintln(r.in, "on")
	r.out.expectLine("on")
}

// hostPID returns the host's PID of a process of c.
func hostPID(t *testing.T, c *Capsule, pid int) int {
	t.Helper()
	for _, host := range listMembers(t, ownNamespaces(c)) {
		var n int
		fmt.Sscan(host, &n)
		if statusField(n, "NSpid:") == fmt.Sprint(pid) {
			return n
		}
	}
	t.Fatalf("no PID %d in the capsule", pid)
	return 0
}

func stateOf(t *testing.T, pid int) byte {
	t.Helper()
	p, err := readStat(pid)
	if err != nil {
		t.Fatal(err)
	}
	return p.state
}

func TestHold(t *testing.T) {
	c := newCapsule(t, func(s *Spec) { s.Hold = []syscall.Signal{syscall.SIGTERM} })
	r := task{c: c, argv: shellCommand("trap 'echo TERM' TERM; echo ready; while :; do read -r line && echo $line; done")}.startTask(t)
	r.out.expectLine("ready")
	e := watchEvents(t, c)
	e.waitForProgram("batch")
	r.sendSignal(syscall.SIGTERM)
	if ev := e.nextEvent(SignalWithheld); ev.Signal != syscall.SIGTERM || ev.Program.Name != "batch" {
		t.Errorf("event %v, want SIGTERM of batch withheld", ev)
	}
	fmt.Fprintln(r.in, "not yet")
	if line, _ := r.out.nextLine(); line != "not yet" {
		t.Errorf("got %q before the maker decided", line)
	}
	if err := c.Signal(testDeadline(t), "batch", syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	r.out.expectLine("TERM")
	e.stop()
	<-e.done
	// A maker that comes back has to decide again.
	r.sendSignal(syscall.SIGTERM)
	e = watchEvents(t, c)
	if ev := e.nextEvent(SignalWithheld); ev.Signal != syscall.SIGTERM {
		t.Errorf("event %v, want SIGTERM withheld", ev)
	}
	e.stop()
	<-e.done
	// If the maker does not come back, the signal is sent.
	r.out.expectLine("TERM")
}
