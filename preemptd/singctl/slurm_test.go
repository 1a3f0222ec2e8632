// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"

	"github.com/singularity-slurm/singularity-slurm/proxyd/api"
	"github.com/singularity-slurm/singularity-slurm/proxyd/api/apitest"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// TestSilentSlurmctld: a checkpoint waits for slurmctld, and says so; other commands say that slurmctld
// does not answer.
func TestSilentSlurmctld(t *testing.T) {
	c := newCluster(t)
	away := filepath.Join(t.TempDir(), "away")
	t.Setenv("AWAY", away)
	for _, tt := range []struct{ command, want string }{
		{"checkpoint 812 -q", "checkpoint mini/812/3: 4.0 GiB captured, 700 MiB stored, in 0s\n"},
		{"checkpoint 812", "! slurmctld does not answer; waiting for it\n"},
		{"show 812", "! singctl: slurmctld does not answer: scontrol: slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n" +
			"! hint: scontrol ping says where it should run\nexit 6\n"},
	} {
		if err := os.WriteFile(away, []byte("1\n2\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := c.runLine(t.Context(), "alice", strings.Fields(tt.command)...); !strings.Contains(got, tt.want) {
			t.Errorf("singctl %s prints\n%s\nwant\n%s", tt.command, got, tt.want)
		}
	}
}

// TestDoctorWithoutSlurmctld: doctor asks the nodes that slurm.conf has, and says so; its summary and its exit code are
// those of their answers.
func TestDoctorWithoutSlurmctld(t *testing.T) {
	c := newCluster(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv("AWAY", write("away", strings.Repeat("x\n", 1000)))
	conf := write("slurm.conf", "ClusterName=mini\nNodeName=DEFAULT CPUs=4\nnodename=n[1-2] \\\n  NodeAddr=127.0.0.[1-2] CPUs=4 # two\nInclude more.conf\nInclude none.conf\nPartitionName=main Nodes=ALL\n")
	write("more.conf", "NodeName=n3 NodeAddr=127.0.0.3\n")
	note := "! slurmctld does not answer: the nodes are as " + conf + " has them\n"
	const silent = "! singctl: slurmctld does not answer: "
	for _, tt := range []struct {
		command, conf string
		want          []string
		none          string
	}{
		{"doctor --all", conf, []string{note, "node n1: proxyd 1.0\n", "node n3: proxyd does not answer: dial tcp 127.0.0.3:PORT: ", "nodes differ\n",
			"3 nodes: 0 ok, 0 with warnings, 2 failing, 1 without an answer\n", "! singctl: 1 of 3 nodes gave no answer: n3\n", "exit 6\n"}, ""},
		{"doctor --node n1,n2", conf, []string{note, "2 nodes: 0 ok, 0 with warnings, 2 failing, 0 without an answer\n", "exit 8\n"}, "n3"},
		{"doctor --node n2", conf, []string{note, "node n2: proxyd 1.0\n"}, "exit"},
		{"doctor", conf, []string{note, "node n1: proxyd 1.0\n", "exit 8\n"}, "n2"},
		{"doctor --node n1,n9", conf, []string{`! singctl: node "n9": slurmctld does not answer, and ` + conf + " has none of that name\n", "exit 2\n"}, "proxyd 1.0"},
		{"doctor --all", write("bad.conf", "NodeName=n[1\n"), []string{"without slurmctld the nodes are not known: " + dir + "/bad.conf: NodeName=n[1: ", silent, "exit 6\n"}, "proxyd 1.0"},
		{"doctor --all", write("uneven.conf", "NodeName=n[1-2] NodeAddr=127.0.0.3\n"), []string{"2 names and 1 addresses", silent, "exit 6\n"}, "proxyd 1.0"},
		{"doctor --all", dir + "/none.conf", []string{"no nodes in " + dir + "/none.conf\n", silent, "exit 6\n"}, "proxyd 1.0"},
	} {
		t.Setenv("SLURM_CONF", tt.conf)
		got := c.runLine(t.Context(), "alice", strings.Fields(tt.command)...)
		for _, want := range tt.want {
			if !strings.Contains(got, want) {
				t.Errorf("singctl %s with %s prints\n%s\nwithout %q", tt.command, tt.conf, got, want)
			}
		}
		if tt.none != "" && strings.Contains(got, tt.none) {
			t.Errorf("singctl %s with %s prints\n%s\nwith %q", tt.command, tt.conf, got, tt.none)
		}
	}
}

// endingConductor ends its server in the middle of a checkpoint, as a daemon does that is killed.
type endingConductor struct {
	*apitest.Conductor
	told <-chan struct{} // closed when the person was told of progress
	end  func()
}

// firstWrite is a writer that closes written at the first write.
type firstWrite struct {
	bytes.Buffer
	once    sync.Once
	written chan struct{}
}

// Write implements io.Writer.
func (w *firstWrite) Write(p []byte) (int, error) {
	w.once.Do(func() { close(w.written) })
	return w.Buffer.Write(p)
}

// Owner implements api.Conductor, as Checkpoint.
func (c endingConductor) Owner(context.Context, string) (uint32, error) { return apitest.Alice, nil }

func (c endingConductor) Checkpoint(ctx context.Context, _ *rpc.CheckpointRequest, progress func(*rpc.Progress)) (*rpc.Checkpoint, error) {
	progress(&rpc.Progress{Phase: rpc.PhaseDump})
	select {
	case <-c.told:
		go c.end()
	case <-ctx.Done():
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestCheckpointBrokenOff: the daemon of the node that leads ends in the middle of a checkpoint. singctl names the node,
// and says whether the job goes on.
func TestCheckpointBrokenOff(t *testing.T) {
	c := newCluster(t)
	var server *grpc.Server
	said := &firstWrite{written: make(chan struct{})}
	conductor := endingConductor{apitest.New(), said.written, func() { server.Stop() }}
	server = api.NewServer(api.Options{Node: "n3", Version: "1.0", Keep: 2, Conductor: conductor}, c.realm.As(0, 0))
	l, err := net.Listen("tcp", "127.0.0.3:"+c.port)
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(l)
	t.Cleanup(server.Stop)
	code := c.newApp("alice", io.Discard, said).runCommand(t.Context(), []string{"checkpoint", "818"})
	got := said.String()
	if code != 6 {
		t.Errorf("exit %d, want 6", code)
	}
	for _, want := range []string{"singctl: node n3: proxyd does not answer: ", "; the checkpoint is broken off, and the job runs on when proxyd is back there\n",
		"hint: on that node: systemctl status proxyd; singctl show 818 says whether the checkpoint was made before\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("singctl prints\n%s\nwithout %q", got, want)
		}
	}
}

// TestSlurmReasons: the reasons are read from the messages of Slurm's commands, and the message is shown as it was.
func TestSlurmReasons(t *testing.T) {
	all := []error{errSlurmSilent, errUnknownJob, errUnknownNode, errNoAdministrator, errNodeState}
	for said, want := range map[string]error{
		"slurm_load_jobs error: Unable to contact slurm controller (connect failure)": errSlurmSilent,
		"slurm_load_jobs error: Invalid job id specified":                             errUnknownJob,
		"Job 812_7 not found":                              errUnknownJob,
		"Node n9 not found":                                errUnknownNode,
		"slurm_update error: Invalid node name specified":  errUnknownNode,
		"slurm_update error: Invalid user id":              errNoAdministrator,
		"slurm_update error: Access/permission denied":     errNoAdministrator,
		"slurm_update error: Invalid node state specified": errNodeState,
		"error: plugin cred/munge not found":               nil,
	} {
		err := readSlurmError("scontrol", said)
		for _, reason := range all {
			if got := errors.Is(err, reason); got != errors.Is(want, reason) {
				t.Errorf("%q: errors.Is with %q = %t", said, reason, got)
			}
		}
		kind, shown := rpc.ErrInternal, "scontrol: "+said
		if errors.Is(want, errSlurmSilent) {
			kind, shown = rpc.ErrUnreachable, "slurmctld does not answer: "+shown
		}
		if !errors.Is(err, kind) || err.Error() != shown {
			t.Errorf("%q is shown as %q, kind %v; want %q, kind %v", said, err, errors.Is(err, kind), shown, kind)
		}
	}
}
