// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// wholeNodes are nodes of a restored job that have all of their programs. wholeNodes counts the calls to them.
type wholeNodes struct {
	mu    sync.Mutex
	asked map[string]int
	at    map[string]map[int]string // where device servers wait, by node
}

func (r *wholeNodes) Call(_ context.Context, node string, req *rpc.CallRequest) (*rpc.CallReply, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	call := calls.NameOf(req)
	switch {
	case call == calls.Unrestored.Name():
		return calls.Unrestored.EncodeReply(nil)
	case call == calls.ReconnectDevices.Name() && !req.GetReconnectDevices().GetConnect():
		return calls.ReconnectDevices.EncodeReply(r.at[node])
	}
	r.asked[call+" "+node]++
	return &rpc.CallReply{}, nil
}

// restoredOn is a job on n1 that has its capsules with devices on n2 and n3.
func restoredOn(t *testing.T, r *wholeNodes) *job {
	c := conductorOn(t, "n1", t.TempDir())
	c.Remote = r
	j := c.jobFor(7)
	nodes := []string{"n1", "n2", "n3"}
	point := &runs.ResumePoint{Meta: &records.Meta{Capsules: []records.CapsuleMeta{{Index: 1, Devices: &records.DeviceMeta{}}, {Index: 2, Devices: &records.DeviceMeta{}}}}}
	j.run.BeginNext(&records.Record{Job: 7, Nodes: nodes}, 0, nodes, point)
	return j
}

// TestCompleteOnce: two nodes that report at the same time complete the restore once.
func TestCompleteOnce(t *testing.T) {
	for range 50 {
		r := &wholeNodes{asked: map[string]int{}, at: map[string]map[int]string{"n2": {1: "a"}, "n3": {2: "b"}}}
		j := restoredOn(t, r)
		opened := make(chan bool)
		for range 2 {
			go func() {
				did, err := j.restore.takeSteps(t.Context(), j.run.Snapshot(), nodeReports)
				if err != nil {
					t.Error(err)
				}
				opened <- did
			}()
		}
		if a, b := <-opened, <-opened; a == b {
			t.Errorf("both calls return %v", a)
		}
		want := map[string]int{"reconnect_devices n2": 1, "reconnect_devices n3": 1, "unlock n2": 1, "unlock n3": 1}
		if !maps.Equal(r.asked, want) {
			t.Fatalf("calls %v, want %v", r.asked, want)
		}
	}
}

// TestCompleteAfterRestart: device servers that work already are not connected again.
func TestCompleteAfterRestart(t *testing.T) {
	r := &wholeNodes{asked: map[string]int{}, at: map[string]map[int]string{"n2": {1: ""}, "n3": {2: "b"}}}
	j := restoredOn(t, r)
	if did, err := j.restore.takeSteps(t.Context(), j.run.Snapshot(), nodeReports); err != nil || !did {
		t.Fatalf("takeSteps when a node reports = %v, %v; want true", did, err)
	}
	if got := slices.Sorted(maps.Keys(r.asked)); !slices.Equal(got, []string{"unlock n2", "unlock n3"}) {
		t.Errorf("calls to the other nodes: %v, want one unlock each", got)
	}
}

// restoredServer is a device server with a status and an address.
type restoredServer struct {
	stopped bool
	address string
	deviceConnector
}

func (s restoredServer) Status(context.Context) (*server.Status, error) {
	return &server.Status{Stopped: s.stopped}, nil
}
func (s restoredServer) Address(context.Context) (string, error) { return s.address, nil }

// TestServerWithoutNetwork: a job of which a capsule had not made its first communicator when it was saved is connected: the
// capsule's programs may have an identity that another capsule's server has made.
func TestServerWithoutNetwork(t *testing.T) {
	alone, err := findAddresses(t.Context(), map[int]deviceConnector{1: restoredServer{stopped: true}})
	noError(t, err)
	waits, err := findAddresses(t.Context(), map[int]deviceConnector{2: restoredServer{stopped: true, address: "b"}})
	noError(t, err)
	works, err := findAddresses(t.Context(), map[int]deviceConnector{2: restoredServer{address: "b"}})
	noError(t, err)
	for _, c := range []struct {
		name      string
		at        map[string]map[int]string
		connected bool
	}{
		{"another waits", map[string]map[int]string{"n2": alone, "n3": waits}, true},
		{"another works", map[string]map[int]string{"n2": alone, "n3": works}, false},
		{"no other has a network", map[string]map[int]string{"n2": alone, "n3": alone}, false},
	} {
		r := &wholeNodes{asked: map[string]int{}, at: c.at}
		j := restoredOn(t, r)
		if did, err := j.restore.takeSteps(t.Context(), j.run.Snapshot(), nodeReports); err != nil || !did {
			t.Fatalf("%s: takeSteps when a node reports = %v, %v; want true", c.name, did, err)
		}
		if connected := r.asked["reconnect_devices n2"] == 1 && r.asked["reconnect_devices n3"] == 1; connected != c.connected {
			t.Errorf("%s: calls %v, connected is %v, want %v", c.name, r.asked, connected, c.connected)
		}
	}
}

// meetingServer is a device server that is connected when all of the job's device servers have been told to connect.
type meetingServer struct {
	told *sync.WaitGroup
	deviceConnector
}

func (s meetingServer) Reconnect(ctx context.Context, _ map[int]string) error {
	s.told.Done()
	all := make(chan struct{})
	go func() { s.told.Wait(); close(all) }()
	select {
	case <-all:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// failingServer is a device server that cannot connect.
type failingServer struct{ deviceConnector }

func (failingServer) Reconnect(context.Context, map[int]string) error { return errors.New("no route") }

// TestConnectSharedNode: capsules that share a node connect to each other, and the error of a capsule's server ends the
// wait of the other servers.
func TestConnectSharedNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a server that waits for ever fails the test at once
		var told sync.WaitGroup
		told.Add(3)
		servers := map[int]deviceConnector{0: meetingServer{told: &told}, 1: meetingServer{told: &told}, 4: meetingServer{told: &told}}
		if err := connectServers(t.Context(), servers, nil); err != nil {
			t.Error(err)
		}
		told.Add(3)
		servers[4] = failingServer{}
		if err := connectServers(t.Context(), servers, nil); err == nil || err.Error() != "capsule 4: no route" {
			t.Errorf("connectServers with a server that fails: %v", err)
		}
		told.Done()
	})
}
