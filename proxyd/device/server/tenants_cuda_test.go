// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/backendtest"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/fakecuda"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/nccl"
)

// In these tests a module's variables must lie where they were, as in jobs: the fake driver puts them into addresses that a
// context reserves, which proxyd/device/backend/cuda/driver/reserve.c places by the space's number. There is one server of real
// devices in a process at a time. So capsules that are apart are served one after the other.

// openReal opens the fake driver with so much memory on each device.
func openReal(t *testing.T, memory uint64) (backend.Backend, *fakecuda.Library) {
	t.Helper()
	l, err := fakes()
	if err != nil {
		t.Fatal(err)
	}
	l.Reset(filepath.Join(t.TempDir(), "calls"), memory)
	b, err := cuda.Open(cuda.Config{Library: l.Path, NCCL: l.Path})
	if err != nil {
		t.Fatal(err)
	}
	return b, l
}

// realTenants makes Tenants over the fake driver.
func realTenants(t *testing.T, memory uint64) (*Tenants, *fakecuda.Library) {
	t.Helper()
	b, l := openReal(t, memory)
	all, err := NewTenants(TenantsConfig{
		Backend: b, Log: slog.New(slog.DiscardHandler), Network: nccl.OverTCP("127.0.0.1"), Info: func(int) []backend.Info { return nil },
	})
	if err != nil {
		t.Fatal(errors.Join(err, b.Close()))
	}
	t.Cleanup(func() {
		if err := all.Close(); err != nil {
			t.Error(err)
		}
	})
	return all, l
}

// realCapsule is a capsule with a rank, and a module with a variable.
type realCapsule struct {
	replica
	index    int
	variable uint64
	folder   []Folder
	rings    []map[uint64]*os.File
	owners   []uint64
}

// aloneWith serves a capsule alone, with the whole device: first restored, if the capsule was saved, and saved at the end.
func (x *realCapsule) aloneWith(t *testing.T, memory uint64, work func(s *Server)) {
	t.Helper()
	b, _ := openReal(t, memory)
	s := New(Config{Backend: b, Log: slog.New(slog.DiscardHandler), Order: []int{0}, Self: x.index, Network: nccl.OverTCP("127.0.0.1")})
	defer s.Close()
	if x.folder != nil {
		reconnectAll(t, []*Server{s}, takePlaces(t, []*Server{s}, x.folder, x.rings))
	}
	work(s)
	x.saveAll(t, []*Server{s}, 0)
}

// saveAll saves and ends the servers of which the first is the capsule's.
func (x *realCapsule) saveAll(t *testing.T, of []*Server, attempt uint64) {
	t.Helper()
	x.folder, x.rings = saveAndEnd(t, of, attempt)
	st, err := readState(x.folder[0])
	if err != nil {
		t.Fatal(err)
	}
	x.owners = nil
	for _, p := range st.Processes {
		for _, d := range p.Devices {
			x.owners = append(x.owners, d.Owner)
		}
	}
}

// beginReal makes n capsules of a job, each of which begins with a device of its own.
func beginReal(t *testing.T, n int, memory uint64) []*realCapsule {
	t.Helper()
	var all []*realCapsule
	for i := range n {
		x := &realCapsule{index: i}
		x.aloneWith(t, memory, func(s *Server) { x.beginRank(t, s) })
		all = append(all, x)
	}
	return all
}

// beginRank makes the capsule's process, with all that checkAll compares.
func (x *realCapsule) beginRank(t *testing.T, s *Server) {
	t.Helper()
	p, cs := attachProcess(t, s, 1)
	c := cs[0]
	c.beginContext(ctxA, 0)
	x.replica = replica{rank{c, p}, c.alloc(replicaAlike * backend.Granule), c.alloc(backend.Granule)}
	x.fillBlocks(x.parameters, 1, replicaAlike)
	x.fillBlocks(x.own, uint64(100+x.index), 1)
	m := c.loadModule(backendtest.Kernels)
	x.variable = binary.LittleEndian.Uint64(c.must("cuModuleGetGlobal_v2", uint8(1), uint8(1), m, "counter"))
	x.writeVariable(uint32(1000 + x.index))
}

func (x *realCapsule) writeVariable(v uint32) {
	x.post("copy_in", x.variable, binary.LittleEndian.AppendUint32(nil, v), uint64(4), uint64(0))
	x.must("cuCtxSynchronize")
}

// checkAll compares the capsule's memory and its variable.
func (x *realCapsule) checkAll(parameters uint64) {
	x.t.Helper()
	x.checkBlocks(x.parameters, parameters, replicaAlike)
	x.checkBlocks(x.own, uint64(100+x.index), 1)
	if got := binary.LittleEndian.Uint32(x.readBytes(x.variable, 4)); got != uint32(1000+x.index) {
		x.t.Errorf("capsule %d: the variable at %#x is %d, want %d", x.index, x.variable, got, 1000+x.index)
	}
}

// joinReal restores capsules into tenants of one process.
func joinReal(t *testing.T, shared *Tenants, all []*realCapsule) (together []*Server) {
	t.Helper()
	var folders []Folder
	var rings []map[uint64]*os.File
	for _, x := range all {
		folders, rings = append(folders, x.folder...), append(rings, x.rings...)
	}
	for _, x := range all {
		s, err := shared.makeServer(&Admission{Name: strconv.Itoa(x.index), Self: x.index, Order: []int{0}})
		if err != nil {
			t.Fatal(err)
		}
		together = append(together, s)
	}
	reconnectAll(t, together, takePlaces(t, together, folders, rings))
	return together
}

// addUpTogether has all capsules add up in a communicator that is there only for that.
func addUpTogether(t *testing.T, all []*realCapsule) {
	t.Helper()
	var ranks []rank
	for _, x := range all {
		ranks = append(ranks, x.rank)
	}
	makeComm(t, ranks, commA)
	for range 3 {
		checkSums(t, ranks, commA, int32(len(all)*(len(all)+1)/2))
	}
	for _, r := range ranks {
		r.must("ncclCommDestroy", uint64(commA))
	}
}

// TestTenantsOnReal: capsules that were each alone on a device come to a single device as tenants of a process, with their memory
// and variables where they were, add up, take turns there, with room for all and with room for one, and are alone again.
func TestTenantsOnReal(t *testing.T) {
	for _, c := range []struct {
		n, blocks int
		swaps     bool
	}{{2, 512, false}, {4, 512, false}, {2, 10, true}, {4, 10, true}} {
		t.Run(fmt.Sprintf("%d capsules, %d blocks", c.n, c.blocks), func(t *testing.T) {
			memory := uint64(c.blocks) * backend.Granule
			all := beginReal(t, c.n, memory)
			places := map[uint64]bool{}
			for _, x := range all {
				if places[x.variable] {
					t.Errorf("capsule %d has its variable where another capsule has its own, at %#x", x.index, x.variable)
				}
				places[x.variable] = true
			}
			shared, _ := realTenants(t, memory)
			together := joinReal(t, shared, all)
			for _, x := range all {
				x.checkAll(1)
			}
			addUpTogether(t, all)
			for i, x := range all {
				x.fillBlocks(x.parameters, uint64(10+i), replicaAlike)
			}
			addUpTogether(t, all)
			for i, x := range all {
				x.checkAll(uint64(10 + i))
			}
			if got := shared.machine.backend.Devices()[0].(backend.Swapper).Swapped(); (got.Out > 0) != c.swaps || got.Most > memory {
				t.Errorf("swapped %+v", got)
			}
			for i, s := range together {
				if st := s.Status(); len(st.Processes) != 1 || st.Sharing[0].Spaces != c.n || st.Sharing[0].Devices != 1 {
					t.Errorf("tenant %d: %+v", i, st)
				}
			}
			found := mustFind(t, cut.Options{}, together...)
			folders, rings := saveAndEnd(t, together, found.Attempt)
			if err := shared.Close(); err != nil {
				t.Fatal(err)
			}
			for i, x := range all {
				x.folder, x.rings = folders[i:i+1], rings[i:i+1]
				x.aloneWith(t, memory, func(*Server) { x.checkAll(uint64(10 + i)) })
			}
		})
	}
}

// TestTenantGoneOnReal: a tenant that is dismissed with work that never ends, and a program that dies, leave the device to the
// other tenants, whose memory and variables stay. The tenant comes back into the same process, as in a restore that is tried
// again.
func TestTenantGoneOnReal(t *testing.T) {
	const memory = 1 << 30
	all := beginReal(t, 3, memory)
	shared, l := realTenants(t, memory)
	joinReal(t, shared, all)
	gone := all[1]
	gone.must("cuStreamCreate", uint64(streamA), uint32(1))
	gone.post("cuStreamWaitValue32_v2", uint64(streamA), gone.own, uint32(1), uint32(1)) // no program writes there
	var work sync.WaitGroup
	for _, x := range []*realCapsule{all[0], all[2]} {
		work.Go(func() {
			for range 5 {
				x.fillBlocks(x.own, uint64(100+x.index), 1)
			}
		})
	}
	if err := errors.Join(shared.dismissTenant("1"), shared.dismissTenant("1")); err != nil {
		t.Error(err)
	}
	work.Wait()
	for _, x := range []*realCapsule{all[0], all[2]} {
		x.checkAll(1)
	}

	// The rings of the capsule are closed: a process that comes back has another.
	again, err := shared.makeServer(&Admission{Name: "1", Self: 1, Order: []int{0}, Awaits: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Restore(t.Context(), gone.folder[0]); err != nil {
		t.Errorf("the tenant that was dismissed does not come back: %v", err)
	}
	all[2].p.endProcess("it was killed")
	<-all[2].p.gone
	all[0].fillBlocks(all[0].parameters, 7, replicaAlike)
	all[0].checkAll(7)
	if got := shared.tenantNames(); !slices.Equal(got, []string{"0", "1", "2"}) {
		t.Errorf("tenants are %v", got)
	}
	if err := shared.Close(); err != nil {
		t.Error(err)
	}
	if left := l.Live(); left != "" {
		t.Errorf("what the driver still has: %s", left)
	}
}

// TestTenantsCollide: a capsule whose variables would lie where another tenant's are is refused, and the other goes on.
func TestTenantsCollide(t *testing.T) {
	const memory = 1 << 30
	all := beginReal(t, 1, memory)
	all = append(all, beginReal(t, 1, memory)...) // both are capsule 0, as if of two jobs
	if !slices.Equal(all[0].owners, all[1].owners) {
		t.Fatalf("owners %v and %v", all[0].owners, all[1].owners)
	}
	shared, _ := realTenants(t, memory)
	joinReal(t, shared, all[:1])
	second, err := shared.makeServer(&Admission{Name: "1", Self: 1, Order: []int{0}, Awaits: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Restore(t.Context(), all[1].folder[0]); !errors.Is(err, ErrRestore) || !strings.Contains(err.Error(), "variables of another capsule's modules") {
		t.Errorf("Restore = %v", err)
	}
	if err := shared.dismissTenant("1"); err != nil {
		t.Error(err)
	}
	all[0].checkAll(1)
}

// TestOldOwners: a save of a release that wrote no numbers of owners comes back with its variables where they were, for the
// numbers are those that such a release derived.
func TestOldOwners(t *testing.T) {
	const memory, derived = 1 << 30, 17 // of device 0 of process 1
	x := &realCapsule{}
	x.aloneWith(t, memory, func(s *Server) {
		for s.machine.owners.TakeNumber(99, 0)+16 != derived {
		}
		x.beginRank(t, s)
	})
	path := filepath.Join(string(x.folder[0]), stateName)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	old := strings.Replace(string(text), fmt.Sprintf(`"owner":%d,`, derived), "", 1)
	if old == string(text) {
		t.Fatalf("owners are %v", x.owners)
	}
	if err := os.WriteFile(path, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	x.aloneWith(t, memory, func(*Server) { x.checkAll(1) })
	if !slices.Equal(x.owners, []uint64{derived}) {
		t.Errorf("the next save has owners %v, want %d", x.owners, derived)
	}
}
