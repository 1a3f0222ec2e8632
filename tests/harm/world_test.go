//go:build harm

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package harm

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/tests/mini"
)

// program is minicluster.
const program = "../../contrib/minicluster/minicluster"

var (
	seed         = flag.Uint64("seed", uint64(time.Now().UnixNano()), "decides what -some picks and what the random operations are; printed")
	some         = flag.Int("some", 0, "only so many kills, and so many interferences, picked by the seed; 0: all")
	randomEvents = flag.Int("random", 100, "how many random operations and faults")
	randomJobs   = flag.Int("jobs", 20, "how many jobs they happen to")
	within       = flag.Duration("within", 0, "begin no random operation or fault after so long; 0: all of -random happen")
	clusterName  = flag.String("cluster", "", "use this cluster of minicluster up --controller --nodes 3 --gpus 2, and leave it up")
)

// aliceID is alice's user number, on every host.
const aliceID = 1001

// world is a cluster with a controller.
type world struct {
	mini.Cluster
	nodes  []string
	losses []byte // of the undisturbed training
}

// newWorld raises a cluster that is taken down when the test is over.
func newWorld(t *testing.T, name string) *world {
	t.Helper()
	w := &world{Cluster: mini.Cluster{Program: program, Name: name}, nodes: []string{"n1", "n2", "n3"}}
	if *clusterName != "" {
		w.Name = *clusterName
	} else {
		t.Cleanup(func() { _, _ = w.Run(context.Background(), "down") })
		if _, err := w.Run(t.Context(), "up", "--nodes", strconv.Itoa(len(w.nodes)), "--gpus", "2", "--controller"); err != nil {
			t.Fatal(err)
		}
	}
	err := os.MkdirAll(w.Shared("kills"), 0o755)
	if err == nil {
		w.losses, err = w.buildTraining(t.Context(), t)
	}
	if err == nil {
		err = w.configureController(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// runAsRoot runs a command of root's on ctl.
func (w *world) runAsRoot(ctx context.Context, command ...string) (string, error) {
	return w.Exec(ctx, "ctl", "root", command...)
}

func (w *world) signalProcess(sig unix.Signal, host string, command ...string) error {
	pid, err := w.FindProcess(host, command...)
	if err != nil {
		return err
	}
	if err := unix.Kill(pid, sig); err != nil || sig != unix.SIGKILL {
		return err
	}
	// Until the host has seen the daemon's end, heal takes the daemon for running and does not start it.
	return waitFor(context.Background(), time.Minute, func() (bool, string) {
		return errors.Is(unix.Kill(pid, 0), unix.ESRCH), fmt.Sprintf("process %d does not end", pid)
	})
}

// controllerLog returns preemptd's log from an offset on.
func (w *world) controllerLog(from int64) string {
	b, _ := os.ReadFile(w.Log("ctl", "preemptd"))
	return string(b[min(from, int64(len(b))):])
}

func (w *world) logOffset() int64 {
	st, err := os.Stat(w.Log("ctl", "preemptd"))
	if err != nil {
		return 0
	}
	return st.Size()
}

// pauseFile is where preemptd of a test cluster finds the step at which it stops itself (preemptd/pausing_journal.go).
const pauseFile = "/run/preemptd-pause"

// pauseController has preemptd stop itself when an action comes to the step, or with "!" behind the name when the step is
// done. With "" preemptd does not stop any more.
func (w *world) pauseController(ctx context.Context, step string) error {
	_, err := w.runAsRoot(ctx, "sh", "-c", fmt.Sprintf("printf '%%s' '%s' >%s", step, pauseFile))
	return err
}

// configureController has preemptd read the configuration of these tests.
func (w *world) configureController(ctx context.Context) error {
	from := w.logOffset()
	text := "operators: [operator]\ninterval: 1s\npatience:\n  start: 2m\n"
	if _, err := w.runAsRoot(ctx, "sh", "-c", fmt.Sprintf("printf '%%s' '%s' > /etc/singularity-slurm/preemptd.yaml", text)); err != nil {
		return err
	}
	if err := w.signalProcess(unix.SIGHUP, "ctl", "preemptd"); err != nil {
		return err
	}
	return waitFor(ctx, time.Minute, func() (bool, string) {
		log := w.controllerLog(from)
		return strings.Contains(log, "configuration read again"), log
	})
}

// act has the fields of an action in the output of singctl history --json.
type act struct {
	ID      int64  `json:"id"`
	Job     int64  `json:"job"`
	Kind    string `json:"kind"`
	State   string `json:"state"`
	Step    string `json:"step"`
	Problem string `json:"problem"`
	Ended   string `json:"ended"`
	Lines   []line `json:"lines"`
}

type line struct {
	Step    string `json:"step"`
	State   string `json:"state"`
	Attempt int    `json:"attempt"`
	Text    string `json:"text"`
}

func (a *act) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "action %d: %s job %d: %s: %s", a.ID, a.Kind, a.Job, a.State, a.Problem)
	for _, l := range a.Lines {
		fmt.Fprintf(&b, "\n  %s %s %d %s", l.State, l.Step, l.Attempt, l.Text)
	}
	return b.String()
}

// askSingctl asks singctl, as root unless told otherwise, and reads its JSON.
func (w *world) askSingctl(ctx context.Context, into any, user string, args ...string) error {
	out, err := w.Exec(ctx, "ctl", user, append([]string{"singctl", "--json", "-q", "--controller", "ctl"}, args...)...)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(out), into)
}

// beginAction requests an action, and does not wait for its end. It waits for a controller that is just being started
// again.
func (w *world) beginAction(ctx context.Context, user string, args ...string) (int64, error) {
	var a act
	err := waitFor(ctx, time.Minute, func() (bool, string) {
		err := w.askSingctl(ctx, &a, user, append(args, "--no-wait")...)
		return err == nil || !isControllerAway(err), fmt.Sprint(err)
	})
	if err == nil && a.ID == 0 {
		err = w.askSingctl(ctx, &a, user, append(args, "--no-wait")...)
	}
	return a.ID, err
}

// isControllerAway reports whether the controller was not there to be asked.
func isControllerAway(err error) bool {
	for _, said := range []string{"no preemptd answers", "does not answer", "not trusted", "ended the reply"} {
		if strings.Contains(err.Error(), said) {
			return true
		}
	}
	return false
}

func (w *world) readAction(ctx context.Context, id int64) (*act, error) {
	var a act
	return &a, w.askSingctl(ctx, &a, "root", "history", "--action", strconv.FormatInt(id, 10))
}

// waitForAction waits until an action has ended.
func (w *world) waitForAction(ctx context.Context, id int64) (*act, error) {
	var a *act
	err := waitFor(ctx, 5*time.Minute, func() (bool, string) {
		var err error
		a, err = w.readAction(ctx, id)
		return err == nil && a.Ended != "", fmt.Sprint(a, err)
	})
	return a, err
}

// healAll starts killed daemons and nodes again, and puts the nodes back into service.
func (w *world) healAll(ctx context.Context) error {
	var errs []error
	for _, host := range append([]string{"ctl"}, w.nodes...) {
		_, err := w.Run(ctx, "heal", host)
		errs = append(errs, err)
	}
	for _, n := range w.nodes {
		_ = w.Scontrol(ctx, "update", "NodeName="+n, "State=RESUME") // refused for a node in service
	}
	return errors.Join(errs...)
}

// waitFor waits until ok says yes; its error has the last answer of ok.
func waitFor(ctx context.Context, within time.Duration, ok func() (bool, string)) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		done, said := ok()
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not within %s: %s", within, said)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// listSteps returns the steps that an action went through, each once, in order.
func (a *act) listSteps() []string {
	var all []string
	for _, l := range a.Lines {
		if l.Step != "" && !slices.Contains(all, l.Step) {
			all = append(all, l.Step)
		}
	}
	return all
}
