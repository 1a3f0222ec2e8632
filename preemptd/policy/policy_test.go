// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/policies/sdk/policypb"
	"github.com/singularity-slurm/singularity-slurm/policies/sdk/sdktest"
)

// patience is for events that must happen, however busy the machine is.
const patience = 2 * time.Minute

// misbehave builds the policy that misbehaves on request. The policy is not built with -race, which uses memory without
// bounds. `go run` links only if Go's cache does not have the program, and runs cp, which copies the program.
var misbehave = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "misbehave")
	if err != nil {
		return "", err
	}
	program := filepath.Join(folder, "misbehave")
	build := exec.Command("go", "run", "-trimpath", "-exec", "cp", "./testdata/misbehave", program)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return program, nil
})

func TestMain(m *testing.M) {
	if program := os.Getenv("POLICY_OF_A_DAEMON"); program != "" {
		runDaemon(program)
	}
	code := m.Run()
	if program, err := misbehave(); err == nil {
		os.RemoveAll(filepath.Dir(program))
	}
	os.Exit(code)
}

// runDaemon asks a policy, says its number, and waits to be killed.
func runDaemon(program string) {
	p := New(Config{Name: "well", Path: program, Args: []string{"well"}, Timeout: patience}, slog.New(slog.DiscardHandler))
	if _, err := p.Ask(context.Background(), newSnapshot()); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(p.Status().PID)
	<-make(chan int)
}

// A policy does not outlive its daemon, however that ends.
func TestAPolicyDiesWithItsDaemon(t *testing.T) {
	program, err := misbehave()
	if err != nil {
		t.Fatal(err)
	}
	daemon := exec.Command(os.Args[0])
	daemon.Env = append(os.Environ(), "POLICY_OF_A_DAEMON="+program)
	out, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	defer daemon.Wait()
	defer daemon.Process.Kill()
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	if syscall.Kill(pid, 0) != nil {
		t.Fatalf("process %d is not there", pid)
	}
	daemon.Process.Kill()
	if !waitUntilGone(pid) {
		t.Errorf("process %d is still there", pid)
	}
}

// logs is a log that can be looked at.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(data)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// startPolicy makes a policy that misbehaves on request.
func startPolicy(t *testing.T, args ...string) (*Policy, *logs) {
	t.Helper()
	program, err := misbehave()
	if err != nil {
		t.Fatal(err)
	}
	log := &logs{}
	p := New(Config{Name: args[0], Path: program, Args: args, Timeout: patience, Memory: 1 << 30}, slog.New(slog.NewTextHandler(log, nil)))
	t.Cleanup(p.Close)
	return p, log
}

func newSnapshot() *policypb.Snapshot {
	return sdk.Encode(sdktest.Cluster(sdktest.Size{Nodes: 4, GPUs: 8, Jobs: 10, Fill: 0.5, Seed: 1}))
}

// waitUntilGone waits until a process is no more, and reports whether that came true.
func waitUntilGone(pid int) bool {
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return true
		}
		time.Sleep(20 * time.Millisecond)
	}
	return false
}

func TestAPolicyIsAsked(t *testing.T) {
	p, _ := startPolicy(t, "well")
	for range 3 {
		intents, err := p.Ask(t.Context(), newSnapshot())
		if err != nil {
			t.Fatal(err)
		}
		if len(intents) != 1 || intents[0].Verb != sdk.Preempt || intents[0].Reason != "well" {
			t.Errorf("Ask = %v, want one preempt", intents)
		}
	}
	s := p.Status()
	if s.Starts != 1 || s.Failures != 0 || s.Who.Name != "misbehave" || s.Problem != "" {
		t.Errorf("status = %+v, want one start and no failure", s)
	}
	pid, _ := strconv.Atoi(s.PID)
	p.Close()
	p.Close()
	if !waitUntilGone(pid) {
		t.Errorf("process %d is still there", pid)
	}
	if _, err := p.Ask(t.Context(), newSnapshot()); !errors.Is(err, ErrClosed) {
		t.Errorf("closed, it says %v", err)
	}
}

func TestWhatAPolicyCanDoWrong(t *testing.T) {
	for _, c := range []struct {
		how  string
		kind Kind
		says string
		time time.Duration // to answer; 0: enough
	}{
		{"end", Crash, "I do not feel like it", 0},
		{"babble", Crash, "start", 0},
		{"elsewhere", Crash, "not in its folder", 0},
		{"old", Crash, "start", 0},
		{"refuse", Refusal, "no such setting", 0},
		{"undecided", Refusal, "too many clouds", 0},
		{"crash", Crash, "exit status 3", 0},
		{"panic", Crash, "panic: a bug in a policy", 0},
		{"memory", Crash, "out of memory", 0},
		{"hang", Hang, "no answer in 500ms", 500 * time.Millisecond},
		{"flood", Flood, "larger than max", 0},
		{"nonsense", Nonsense, "there is no verb 99", 0},
	} {
		t.Run(c.how, func(t *testing.T) {
			p, log := startPolicy(t, c.how)
			if c.time != 0 {
				p.config.Timeout = c.time
			}
			_, err := p.Ask(t.Context(), newSnapshot())
			var f *Failure
			if !errors.As(err, &f) || f.Kind != c.kind || !strings.Contains(f.Detail, c.says) {
				t.Fatalf("got %v, want %s: …%s…\n%s", err, c.kind, c.says, log)
			}
			s := p.Status()
			if s.Failures != 1 || s.Kinds[c.kind] != 1 || !strings.Contains(s.Problem, c.says) {
				t.Errorf("status after a failure = %+v", s)
			}
			if !strings.Contains(log.String(), string(c.kind)) {
				t.Errorf("the log does not say it:\n%s", log)
			}
		})
	}
}

// Endless output of a policy is cut, and does no harm.
func TestAPolicyThatTalks(t *testing.T) {
	p, log := startPolicy(t, "talk")
	intents, err := p.Ask(t.Context(), newSnapshot())
	if err != nil || len(intents) != 1 {
		t.Fatalf("Ask of a policy that talks = %v, %v, want one intent", intents, err)
	}
	if n := len(log.String()); n > 200<<10 || !strings.Contains(log.String(), "says too much") {
		t.Errorf("%d bytes of log", n)
	}
}

// A policy that fails rests, longer each time, and is a new process each time.
func TestAPolicyThatFailsRests(t *testing.T) {
	p, _ := startPolicy(t, "crash")
	clock := time.Now()
	p.now = func() time.Time { return clock }
	for n, rest := range []time.Duration{1, 2, 4, 8} {
		_, err := p.Ask(t.Context(), newSnapshot())
		var resting *RestingError
		if errors.As(err, &resting) {
			t.Fatalf("%d: it still rests", n)
		}
		clock = clock.Add(rest*time.Second - time.Millisecond)
		var f *Failure
		if _, err = p.Ask(t.Context(), newSnapshot()); !errors.As(err, &resting) || !errors.As(err, &f) {
			t.Fatalf("%d: got %v, want a rest", n, err)
		}
		clock = clock.Add(time.Millisecond)
	}
	if s := p.Status(); s.Starts != 4 || s.Failures != 4 || s.Kinds[Crash] != 4 {
		t.Errorf("status = %+v, want four starts and four crashes", s)
	}
}

// A policy that ends between two questions is noticed with the next question.
func TestAPolicyThatDiesBetweenQuestions(t *testing.T) {
	p, _ := startPolicy(t, "die later")
	if _, err := p.Ask(t.Context(), newSnapshot()); err != nil {
		t.Fatal(err)
	}
	pid, _ := strconv.Atoi(p.Status().PID)
	if !waitUntilGone(pid) {
		t.Fatal("the policy's process did not die")
	}
	_, err := p.Ask(t.Context(), newSnapshot())
	var f *Failure
	if !errors.As(err, &f) || f.Kind != Crash || !strings.Contains(f.Detail, "exit status 4") {
		t.Errorf("Ask of a policy that died: %v, want its exit status", err)
	}
}

func TestAPolicyIsReloaded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.star")
	write := func(how string) {
		if err := os.WriteFile(file+".new", []byte(how), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	write("well")
	p, _ := startPolicy(t, "file", file)
	p.config.Watch = []string{file}
	ask := func() error {
		_, err := p.Ask(t.Context(), newSnapshot())
		return err
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	first := p.Status().PID

	write("refuse") // the old process goes on
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	if s := p.Status(); s.PID != first || s.Failures != 1 {
		t.Errorf("after a change that does not start: %+v", s)
	}
	write("undecided") // this policy starts
	if err := ask(); err == nil || !strings.Contains(err.Error(), "too many clouds") {
		t.Errorf("Ask of the changed policy: %v, want its refusal", err)
	}
	second := p.Status().PID
	if pid, _ := strconv.Atoi(first); second == first || !waitUntilGone(pid) {
		t.Errorf("process %s, then %s", first, second)
	}

	c := p.config
	c.Timeout = time.Minute
	p.Configure(c) // no change that the process sees
	_ = ask()
	if is := p.Status().PID; is != second {
		t.Errorf("another timeout gave another process: %s, then %s", second, is)
	}
	c.Settings = []byte(`{"more": 1}`)
	p.Configure(c)
	_ = ask()
	if is := p.Status().PID; is == second {
		t.Error("other settings gave no other process")
	}
}

// A change ends a rest: after the repair of a policy, no person need wait.
func TestAChangeEndsARest(t *testing.T) {
	p, _ := startPolicy(t, "crash")
	if _, err := p.Ask(t.Context(), newSnapshot()); err == nil {
		t.Fatal("Ask of a policy that crashes returned no error")
	}
	c := p.config
	c.Args = []string{"well"}
	p.Configure(c)
	if _, err := p.Ask(t.Context(), newSnapshot()); err != nil {
		t.Error(err)
	}
}

// A child of a policy dies with the policy; a child that has fled from its group keeps no caller waiting.
func TestAPolicyHasChildren(t *testing.T) {
	for _, how := range []string{"child", "orphan"} {
		t.Run(how, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pid")
			p, _ := startPolicy(t, how, file)
			_, err := p.Ask(t.Context(), newSnapshot())
			if (err != nil) != (how == "orphan") {
				t.Fatal(err)
			}
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			child, err := strconv.Atoi(string(data))
			if err != nil {
				t.Fatal(err)
			}
			p.Close()
			if how == "orphan" {
				syscall.Kill(child, syscall.SIGKILL)
				return
			}
			if !waitUntilGone(child) {
				t.Errorf("its child %d is still there", child)
			}
		})
	}
}

// A caller that goes away while a policy thinks has not made the policy fail.
func TestAQuestionIsTakenBack(t *testing.T) {
	p, _ := startPolicy(t, "hang")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for p.Status().Starts == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
	}()
	if _, err := p.Ask(ctx, newSnapshot()); !errors.Is(err, context.Canceled) {
		t.Errorf("Ask with a canceled context: %v", err)
	}
	if s := p.Status(); s.Failures != 0 || s.PID == "" {
		t.Errorf("status = %+v, want a process and no failure", s)
	}
}
