// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/preemptd/action"
	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
	"github.com/singularity-slurm/singularity-slurm/slurmrestd-client/slurmresttest"
)

// TestMain is also preemptd's own main.
func TestMain(m *testing.M) {
	if os.Getenv("PREEMPTD_LIFE") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// preemptd is a process of ours.
type preemptd struct {
	*testing.T
	cmd   *exec.Cmd
	lines chan string
}

func newCommand(args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), "PREEMPTD_LIFE=1")
	return cmd
}

// startPreemptd starts preemptd on a journal and a slurmrestd.
func startPreemptd(t *testing.T, srv *slurmresttest.Server, file string, args ...string) *preemptd {
	t.Helper()
	p := &preemptd{T: t, cmd: newCommand(append([]string{"--config", file, "--slurmrestd", srv.Config().Address}, args...)...), lines: make(chan string, 10000)}
	errs, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.cmd.Process.Kill(); p.cmd.Wait() })
	go func() {
		defer close(p.lines)
		for s := bufio.NewScanner(errs); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	return p
}

// loggedAddress returns where preemptd listens for something, as its log says.
func (p *preemptd) loggedAddress(what string) string {
	p.Helper()
	_, rest, _ := strings.Cut(p.waitForLog("msg="+what+" address=", `msg="`+what+`" address=`), " address=")
	address, _, _ := strings.Cut(rest, " ")
	return address
}

// waitForLog waits for a line of preemptd's log that has a word of these.
func (p *preemptd) waitForLog(words ...string) string {
	p.Helper()
	var before []string
	timeout := time.After(2 * time.Minute)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				p.Fatalf("preemptd ended without %q:\n%s", words, strings.Join(before, "\n"))
			}
			for _, what := range words {
				if strings.Contains(line, what) {
					return line
				}
			}
			before = append(before, line)
		case <-timeout:
			p.Fatalf("no %q in\n%s", words, strings.Join(before, "\n"))
		}
	}
}

// waitForEnd waits until preemptd has ended well.
func (p *preemptd) waitForEnd() {
	p.Helper()
	p.waitForLog("stopped; jobs and Slurm go on")
	for range p.lines { // to the end of the pipe, before Wait closes the pipe
		continue
	}
	if err := p.cmd.Wait(); err != nil {
		p.Error(err)
	}
}

func writeConfiguration(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "preemptd.yaml")
	text = fmt.Sprintf("journal: %s/preemptd.db\ninterval: 1s\nlisten: 127.0.0.1:0\nweb: {address: 127.0.0.1:0}\nsacctmgr: \"\"\n%s", dir, text)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestTwo: the second of two waits while the first works, takes over when that is killed, and does the actions that
// were left; then the second is reloaded, and stopped.
func TestTwo(t *testing.T) {
	srv := slurmresttest.Start(t, slurmresttest.Options{Cluster: "test"})
	srv.AddNode(slurmrest.Node{Name: "n0", State: slurmrest.NodeState{Base: "DOWN"}})
	id := srv.AddJob(slurmrest.Job{Batch: true, Requeueable: true, Comment: "mine"})
	file := writeConfiguration(t, "")
	first := startPreemptd(t, srv, file)
	first.waitForLog("msg=working")
	second := startPreemptd(t, srv, file)
	second.waitForLog(fmt.Sprintf("process %d", first.cmd.Process.Pid))
	first.cmd.Process.Kill()
	second.waitForLog("msg=working")
	// Actions of the journal are done, also when another process wrote them: here as a predecessor would have.
	second.cmd.Process.Kill()
	j, err := journal.Open(t.Context(), filepath.Join(filepath.Dir(file), "preemptd.db"), "test")
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Await(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	raw, err := action.Encode("hold", action.Args{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Begin(t.Context(), journal.Request{Kind: "hold", Job: id, Args: raw, Who: "bob", Why: "x"}); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	third := startPreemptd(t, srv, file)
	third.waitForLog("action ended")
	if job, _ := srv.Job(id); !job.Held || !strings.HasPrefix(job.Comment, "mine; preemptd: held by bob: x") {
		t.Errorf("held %v, comment %q", job.Held, job.Comment)
	}
	checkReload(t, third, file)
	waitsElsewhere(t, srv)
	third.cmd.Process.Signal(syscall.SIGTERM)
	third.waitForEnd()
	if names := reservationNames(srv); strings.Contains(names, ":works:") {
		t.Errorf("no preemptd works any more, and Slurm shows %s", names)
	}
}

// waitsElsewhere: a preemptd with another journal knows from Slurm that the other works, and waits.
func waitsElsewhere(t *testing.T, srv *slurmresttest.Server) {
	t.Helper()
	other := startPreemptd(t, srv, writeConfiguration(t, ""))
	holder, _, _ := strings.Cut(reservationNames(srv), " ")
	if line := other.waitForLog(`msg="another preemptd works; waiting"`); !strings.Contains(line, "(reservation "+holder+")") || holder == "" {
		t.Errorf("the waiting preemptd logged %s; want the reservation %s", line, holder)
	}
	other.cmd.Process.Signal(syscall.SIGTERM)
	other.waitForEnd()
	if names := reservationNames(srv); names != holder {
		t.Errorf("the preemptd that waited is gone, and Slurm shows %s; want %s", names, holder)
	}
}

// reservationNames are the names of Slurm's reservations.
func reservationNames(srv *slurmresttest.Server) string {
	var names []string
	for _, r := range srv.Reservations() {
		names = append(names, r.Name)
	}
	return strings.Join(names, " ")
}

// checkReload: a configuration that is wrong has no effect, and is reported.
func checkReload(t *testing.T, p *preemptd, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ more, said string }{
		{"intervall: 2s\n", "did you mean interval?"},
		{"max_actions: 3\nproxyd_port: 1\n", "proxyd_port"},
	} {
		if err := os.WriteFile(file, append(text, c.more...), 0o644); err != nil {
			t.Fatal(err)
		}
		p.cmd.Process.Signal(syscall.SIGHUP)
		p.waitForLog(c.said)
	}
	p.waitForLog("configuration read again")
}

// A dry run tells which actions would be begun, and needs no mandate.
func TestDryRun(t *testing.T) {
	srv := slurmresttest.Start(t, slurmresttest.Options{Cluster: "test"})
	srv.AddNode(slurmrest.Node{Name: "n0", State: slurmrest.NodeState{Base: "DOWN"}})
	file := writeConfiguration(t, "")
	works := startPreemptd(t, srv, file)
	works.waitForLog("msg=working")
	dry := startPreemptd(t, srv, file, "--dry-run")
	dry.waitForLog("dry_run=true")
	if names := reservationNames(srv); strings.Contains(names, " ") {
		t.Errorf("Slurm shows %s", names)
	}
	dry.cmd.Process.Signal(syscall.SIGTERM)
	dry.waitForEnd()
	works.cmd.Process.Signal(syscall.SIGTERM)
	works.waitForEnd()
}

// A slurmrestd that is away at the start is waited for. systemd is told that meanwhile, and does not wait.
func TestAway(t *testing.T) {
	told := filepath.Join(t.TempDir(), "notify")
	systemd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: told, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer systemd.Close()
	t.Setenv("NOTIFY_SOCKET", told)
	srv := slurmresttest.Start(t, slurmresttest.Options{Cluster: "test"})
	srv.AddNode(slurmrest.Node{Name: "n0", State: slurmrest.NodeState{Base: "DOWN"}})
	srv.Fail(slurmresttest.Fault{Times: 5, Drop: true})
	p := startPreemptd(t, srv, writeConfiguration(t, ""))
	p.waitForLog("slurmrestd does not answer")
	waitForTold(t, systemd, `^READY=1\nSTATUS=waits for slurmrestd: `)
	p.waitForLog("msg=working")
	waitForTold(t, systemd, `^READY=1\nSTATUS=$`)
	p.cmd.Process.Signal(syscall.SIGTERM)
	p.waitForEnd()
}

// waitForTold waits until systemd is told a text that matches a pattern.
func waitForTold(t *testing.T, systemd *net.UnixConn, want string) {
	t.Helper()
	systemd.SetReadDeadline(time.Now().Add(time.Minute))
	pattern, b := regexp.MustCompile(want), make([]byte, 4096)
	for {
		n, err := systemd.Read(b)
		if err != nil {
			t.Fatalf("systemd is not told %q: %v", want, err)
		}
		if pattern.Match(b[:n]) {
			return
		}
	}
}

func TestCommandLine(t *testing.T) {
	file := writeConfiguration(t, "")
	wrong := writeConfiguration(t, "polcies: a\n")
	missing := writeConfiguration(t, "policies: [tiers]\npolicy: {folder: /nonexistent}\n")
	for _, c := range []struct {
		args string
		code int
		said string
	}{
		{"--version", 0, "preemptd version"},
		{"config check --config " + file, 0, "the configuration is fine"},
		{"config check --config " + wrong, 1, "polcies: no such key; did you mean policies?"},
		{"config check --config " + missing, 1, "policy tiers: stat /nonexistent/sing-policy-tiers: no such file or directory"},
		{"config check --config " + file + " --interval x", 1, `--interval: interval: "x": want a time`},
		{"config --config " + file + " --rules-min-run 7m", 0, "(from --rules-min-run; SINGULARITY_SLURM_PREEMPTD_RULES_MIN_RUN)"},
		{"config --config /nonexistent/x.yaml", 0, `#interval: 5s`},
		{"run", 2, `unknown command "run"; preemptd --help says what it takes`},
		{"--dry", 2, "unknown flag: --dry"},
		{"config check all", 2, `check: unexpected argument "all"`},
		{"--config /nonexistent/x.yaml", 1, "no such file or directory"},
	} {
		cmd := newCommand(strings.Fields(c.args)...)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		if cmd.ProcessState.ExitCode() != c.code || !strings.Contains(string(out), c.said) {
			t.Errorf("preemptd %s: exit code %d\n%s", c.args, cmd.ProcessState.ExitCode(), out)
		}
	}
}

// TestScraped: both the working and the waiting preemptd answer Prometheus, and count their work; the log is JSON
// when that is asked for.
func TestScraped(t *testing.T) {
	srv := slurmresttest.Start(t, slurmresttest.Options{Cluster: "test"})
	srv.AddNode(slurmrest.Node{Name: "n1", GRES: "gpu:4", CPUs: 8, RealMemory: 4000})
	file := writeConfiguration(t, "metrics: {address: '127.0.0.1:0'}\nlog: {format: json, level: debug}\n")
	works := startPreemptd(t, srv, file)
	worksAt := works.metricsAt()
	works.waitForLog(`"msg":"working"`)
	waits := startPreemptd(t, srv, file)
	waitsAt := waits.metricsAt()
	waits.waitForLog(`"msg":"another preemptd works; waiting"`)
	for _, want := range []string{"preemptd_leader 1", `preemptd_gpus{state="free"} 4`, `preemptd_slurmrestd_request_duration_seconds_count{endpoint="nodes",method="GET",result="ok"}`,
		`preemptd_actions_total{kind="preempt",state="stuck"} 0`} {
		works.waitForMetric(worksAt, want)
	}
	waits.waitForMetric(waitsAt, "preemptd_leader 0")
	for _, p := range []*preemptd{waits, works} {
		p.cmd.Process.Signal(syscall.SIGTERM)
		p.waitForEnd()
	}
}

// metricsAt is the address of its metrics, from its log.
func (p *preemptd) metricsAt() string {
	p.Helper()
	for line := range p.lines {
		var entry struct{ Msg, Address string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			p.Fatalf("%s: %v", line, err)
		}
		if entry.Msg == "metrics" {
			return "http://" + entry.Address + "/metrics"
		}
	}
	p.Fatal("preemptd ended")
	return ""
}

// waitForMetric waits until preemptd's metrics say something.
func (p *preemptd) waitForMetric(url, want string) {
	p.Helper()
	text := ""
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		resp, err := http.Get(url)
		if err != nil {
			p.Fatal(err)
		}
		raw, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if text = string(raw); err == nil && strings.Contains(text, want) {
			return
		}
	}
	p.Errorf("no %q in\n%s", want, text)
}
