// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/nccl"
	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu"
)

// tenantsOf makes Tenants with a single device.
func tenantsOf(t *testing.T, memory uint64) *Tenants {
	t.Helper()
	b, err := softgpu.New(softgpu.Config{Seed: "shared", Workers: 1, Memory: []uint64{memory}})
	if err != nil {
		t.Fatal(err)
	}
	all, err := NewTenants(TenantsConfig{
		Backend: b, Log: slog.New(slog.DiscardHandler), Network: nccl.OverTCP("127.0.0.1"), Info: func(int) []backend.Info { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := all.Close(); err != nil {
			t.Error(err)
		}
	})
	return all
}

// tenantServers makes n servers of a job on a single machine.
func tenantServers(t *testing.T, all *Tenants, n int) []*Server {
	t.Helper()
	var out []*Server
	for i := range n {
		s, err := all.makeServer(&Admission{Name: strconv.Itoa(i), Self: i})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}

// separateServers makes n servers of a job, each with a device of its own.
func separateServers(t *testing.T, n int, memory uint64) []*Server {
	t.Helper()
	var out []*Server
	for i := range n {
		b, err := softgpu.New(softgpu.Config{Seed: "own", Workers: 1, Memory: []uint64{memory}})
		if err != nil {
			t.Fatal(err)
		}
		s := New(Config{Backend: b, Log: slog.New(slog.DiscardHandler), Self: i, Network: nccl.OverTCP("127.0.0.1")})
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		out = append(out, s)
	}
	return out
}

// replica is a rank with parameters that are alike on all ranks, and memory of its own.
type replica struct {
	rank
	parameters, own uint64
}

// Of a replica's memory, in blocks.
const (
	replicaAlike = 4
	replicaOwn   = 2 // a communicator's buffer is in the second
)

func newReplicas(t *testing.T, servers []*Server) (out []replica, ranks []rank) {
	t.Helper()
	for i, r := range makeRanks(t, servers...) {
		x := replica{r, r.alloc(replicaAlike * backend.Granule), r.alloc(backend.Granule)}
		x.fillBlocks(x.parameters, 1, replicaAlike)
		x.fillBlocks(x.own, uint64(100+i), 1)
		out, ranks = append(out, x), append(ranks, r)
	}
	return out, ranks
}

// fillBlocks writes blocks that depend on the seed alone.
func (x *replica) fillBlocks(at, seed uint64, blocks int) {
	for i := range blocks {
		x.post("cuMemsetD32Async", at+uint64(i*backend.Granule), uint32(seed+uint64(1000*i)), uint64(backend.Granule/4), uint64(0))
	}
	x.must("cuCtxSynchronize")
}

// checkBlocks compares a replica's memory with the content that fillBlocks has written.
func (x *replica) checkBlocks(at, seed uint64, blocks int) {
	x.t.Helper()
	for i := range blocks {
		want := binary.LittleEndian.AppendUint32(nil, uint32(seed+uint64(1000*i)))
		for _, from := range []uint64{0, backend.Granule - 4096} {
			if got := x.readBytes(at+uint64(i*backend.Granule)+from, 4096); !bytes.Equal(got, bytes.Repeat(want, 1024)) {
				x.t.Errorf("process %d has other bytes in block %d at %#x", x.p.ID, i, at)
			}
		}
	}
}

// TestTenants: four ranks with a device each are restored on a single device, which holds equal blocks once, and swaps
// memory that does not fit. The ranks have a cut in common, are saved one after the other, and go on on four devices.
func TestTenants(t *testing.T) {
	const n, memory = 4, (replicaAlike + 4*replicaOwn) * backend.Granule
	apart := separateServers(t, n, memory)
	all, ranks := newReplicas(t, apart)
	checkSums(t, ranks, commA, 10)
	shared := tenantsOf(t, memory)
	together := tenantServers(t, shared, n)
	c := mustFind(t, cut.Options{}, apart...)
	folders, rings := saveAndEnd(t, apart, c.Attempt)
	peers := takePlaces(t, together, folders, rings)
	device := shared.machine.backend.Devices()[0]
	const alike = (replicaAlike + 1) * backend.Granule // with the sums
	if got := device.(backend.BlockSharer).Common(); got.Shared != alike || got.Saved != (n-1)*alike {
		t.Errorf("%d blocks are common after the restore, and %d saved: %+v", got.Shared/backend.Granule, got.Saved/backend.Granule, got)
	}
	reconnectAll(t, together, peers)
	if len(shared.machine.restored.blocks) != 0 {
		t.Errorf("%d blocks are still taken for what was restored, and the job goes on", len(shared.machine.restored.blocks))
	}
	checkSums(t, ranks, commA, 10)
	for i, x := range all {
		x.checkBlocks(x.parameters, 1, replicaAlike)
		x.checkBlocks(x.own, uint64(100+i), 1)
	}
	if got := device.(backend.Swapper).Swapped(); got.Out != 0 || got.Most > memory {
		t.Errorf("memory that is there once does not fit: %+v", got)
	}
	for i := range all { // and now no block is alike
		all[i].fillBlocks(all[i].parameters, uint64(10+i), replicaAlike)
	}
	checkSums(t, ranks, commA, 10)
	for i, x := range all {
		x.checkBlocks(x.parameters, uint64(10+i), replicaAlike)
	}
	if got := device.(backend.Swapper).Swapped(); got.Out == 0 || got.Most > memory {
		t.Errorf("memory that does not fit is not swapped between tenants: %+v", got)
	}
	for i, s := range together {
		if st := s.Status(); len(st.Processes) != 1 || st.Sharing[0].Spaces != n || st.Sharing[0].Devices != 1 {
			t.Errorf("tenant %d: %+v", i, st)
		}
	}

	c = mustFind(t, cut.Options{}, together...)
	folders, rings = saveAndEnd(t, together, c.Attempt)
	apart = separateServers(t, n, memory)
	reconnectAll(t, apart, takePlaces(t, apart, folders, rings))
	checkSums(t, ranks, commA, 10)
	for i, x := range all {
		x.checkBlocks(x.parameters, uint64(10+i), replicaAlike)
		x.checkBlocks(x.own, uint64(100+i), 1)
	}
}

// TestTenantDismissed: a tenant that ends, in the middle of work that never ends, leaves its memory, and takes no
// memory from the other tenants: memory in common with them stays theirs.
func TestTenantDismissed(t *testing.T) {
	const n = 3
	apart := separateServers(t, n, testMemory)
	all, _ := newReplicas(t, apart)
	shared := tenantsOf(t, testMemory)
	together := tenantServers(t, shared, n)
	movedJob(t, apart, together)
	x := all[1]
	x.must("cuStreamCreate", uint64(streamA), uint32(1))
	x.post("cuStreamWaitValue32_v2", uint64(streamA), x.own, uint32(1), uint32(1)) // no program writes there
	var work sync.WaitGroup
	for _, i := range []int{0, 2} {
		work.Go(func() {
			for range 5 {
				all[i].fillBlocks(all[i].own, uint64(100+i), 1)
			}
		})
	}
	if err := errors.Join(shared.dismissTenant("1"), shared.dismissTenant("1"), shared.dismissTenant("9")); err != nil {
		t.Error(err)
	}
	work.Wait()
	if got := shared.tenantNames(); !slices.Equal(got, []string{"0", "2"}) {
		t.Errorf("tenants are %v", got)
	}
	for _, i := range []int{0, 2} {
		all[i].checkBlocks(all[i].parameters, 1, replicaAlike)
		all[i].checkBlocks(all[i].own, uint64(100+i), 1)
	}
	if st := together[0].Status(); st.Sharing[0].Spaces != 2 || len(st.Processes) != 1 {
		t.Errorf("after a tenant's end, Status = %+v, want 2 spaces and one process", st)
	}
	next := tenantServers(t, shared, 0)
	if s, err := shared.makeServer(&Admission{Name: "1", Self: 1}); err != nil {
		t.Error(err)
	} else {
		next = append(next, s)
	}
	_, cs := attachProcess(t, next[0], 1) // in the place of the tenant that is gone
	cs[0].beginContext(ctxA, 0)
	cs[0].must("cuMemsetD8_v2", cs[0].alloc(16), uint8(3), uint64(16))
}

// boundSocket makes a socket with a name, as the daemon does.
func boundSocket(t *testing.T, path string, listen bool) *os.File {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	}
	if err == nil && listen {
		err = unix.Listen(fd, 16)
	}
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), path)
	t.Cleanup(func() { f.Close() })
	return f
}

// TestTenantOrders: tenants come and go by orders, and each is given its own orders at its own socket.
func TestTenantOrders(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	shared := tenantsOf(t, testMemory)
	at := filepath.Join(dir, "shared")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: at, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- shared.ServeControl(l) }()
	c := connectController(t, at)
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"7.0", "7.1"} {
		control, programs := boundSocket(t, path(name), true), boundSocket(t, path(name+".programs"), false)
		if err := c.Admit(ctx, Admission{Name: name, Order: []int{0, 0}}, control, programs); err != nil {
			t.Fatal(err)
		}
		localsock.CloseAll([]*os.File{control, programs}) // else a connection to a tenant that has ended would wait
	}
	for name, a := range map[string]Admission{
		`"7.1" is a tenant already`: {Name: "7.1"},
		"devices on [1] of 1":       {Name: "7.2", Order: []int{1}},
		"devices on [-1] of 1":      {Name: "7.2", Order: []int{-1}},
		"invalid argument":          {Order: []int{0}},
	} {
		var bad *OrderError
		err := c.Admit(ctx, a, boundSocket(t, path(name), true), boundSocket(t, path(name+".programs"), false))
		if !errors.As(err, &bad) || bad.Temporary || !strings.Contains(bad.Text, name) {
			t.Errorf("Admit(%+v) = %v, want a lasting error with the name", a, err)
		}
	}
	if _, err := c.giveOrder(ctx, &order{Do: "admit", Admit: &Admission{Name: "7.3"}}, nil, nil); err == nil {
		t.Error("a tenant without sockets was admitted")
	}
	if names, err := c.Tenants(ctx); err != nil || !slices.Equal(names, []string{"7.0", "7.1"}) {
		t.Errorf("Tenants = %v, %v, want 7.0 and 7.1", names, err)
	}
	for _, name := range []string{"7.0", "7.1"} {
		if st, err := connectController(t, path(name)).Status(ctx); err != nil || len(st.Devices) != 2 || st.Devices[1].On != 0 {
			t.Errorf("tenant %s: Status = %+v, %v, want two devices on one", name, st, err)
		}
		program, err := net.Dial("unixpacket", path(name+".programs"))
		if err != nil {
			t.Fatal(err)
		}
		program.Close()
	}
	if err := c.Dismiss(ctx, "7.0"); err != nil {
		t.Error(err)
	}
	// A process that another test is just starting may have a copy of the socket for a moment.
	waitFor(t, "programs of the tenant that was dismissed are refused", func() bool {
		program, err := net.Dial("unixpacket", path("7.0.programs"))
		if err == nil {
			program.Close()
		}
		return errors.Is(err, unix.ECONNREFUSED)
	})
	if _, err := connectController(t, path("7.1")).Status(ctx); err != nil {
		t.Errorf("the other tenant: %v", err)
	}
	select {
	case err := <-shared.Failed():
		t.Errorf("a dismissal counts as a failure: %v", err)
	default:
	}
	if err := shared.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
