// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/nccl"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu"
)

// TestImproveOrder: devices move for a gain that is large enough, and for no smaller gain.
func TestImproveOrder(t *testing.T) {
	pairs := func(near, far, rest int) [][]int { // of neighbours, of 0 and 2 and 1 and 3, and of 0 and 3 and 1 and 2
		return [][]int{{0, near, far, rest}, {near, 0, rest, far}, {far, rest, 0, near}, {rest, far, near, 0}}
	}
	for _, c := range []struct {
		name        string
		a           affinity
		order, want []int
	}{
		{"nothing is known", affinity{}, []int{0, 0, 1, 1}, nil},
		{"there are no devices", affinity{common: [][]int{}, rareness: [][]int{}}, nil, nil},
		{"nothing is alike", affinity{common: pairs(0, 0, 0), rareness: pairs(0, 0, 0)}, []int{0, 0, 1, 1}, nil},
		{"all are alike", affinity{common: pairs(5, 5, 5), rareness: pairs(9, 9, 9)}, []int{0, 0, 1, 1}, nil},
		{"others are alike", affinity{common: pairs(0, 5, 0)}, []int{0, 0, 1, 1}, []int{0, 1, 0, 1}},
		{"these are together", affinity{common: pairs(0, 5, 0)}, []int{1, 0, 1, 0}, nil},
		{"others are more alike", affinity{common: pairs(20, 23, 0)}, []int{0, 0, 1, 1}, []int{0, 1, 0, 1}},
		{"others are hardly more alike", affinity{common: pairs(20, 22, 0)}, []int{0, 0, 1, 1}, nil},
		{"others meet more seldom", affinity{rareness: pairs(1, 2, 0)}, []int{0, 0, 1, 1}, []int{0, 1, 0, 1}},
		{"others meet hardly more seldom", affinity{rareness: pairs(10, 19, 0)}, []int{0, 0, 1, 1}, nil},
		{"neighbours are alike and meet often", affinity{common: pairs(5, 0, 0), rareness: pairs(1, 9, 0)}, []int{0, 0, 1, 1}, nil},
		{"all are alike, and others meet more seldom", affinity{common: pairs(5, 5, 5), rareness: pairs(1, 9, 0)}, []int{0, 0, 1, 1}, []int{0, 1, 0, 1}},
		{"three and one", affinity{common: pairs(0, 5, 0)}, []int{0, 1, 1, 1}, nil},
		{"three devices", affinity{common: pairs(0, 5, 0)}, []int{0, 0, 1, 2}, []int{0, 1, 0, 2}},
	} {
		was := slices.Clone(c.order)
		if got := c.a.improveOrder(c.order); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if !slices.Equal(was, c.order) {
			t.Errorf("%s: the order that is has become %v", c.name, c.order)
		}
	}
}

// TestImprovedEnough: an order that is worth a move is better, has the same places, and is worth no further move.
func TestImprovedEnough(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 3))
	moved := 0
	for range 500 {
		n := 1 + r.IntN(8)
		blocks, order := make([]map[int]bool, n), make([]int, n)
		for i := range n {
			blocks[i], order[i] = blocksOf(r.IntN(3), r.IntN(9), r.IntN(9)), r.IntN(4)
		}
		a := affinity{common: commonBlocks(blocks)}
		next := a.improveOrder(order)
		if next == nil {
			continue
		}
		moved++
		was, _ := a.sumOrder(order)
		is, _ := a.sumOrder(next)
		if is <= was || !slices.Equal(slices.Sorted(slices.Values(order)), slices.Sorted(slices.Values(next))) {
			t.Fatalf("%v, with %d blocks in common, became %v, with %d", order, was, next, is)
		}
		if more := a.improveOrder(next); more != nil {
			t.Fatalf("%v became %v, and then %v", order, next, more)
		}
	}
	if moved < 50 {
		t.Errorf("devices moved in %d cases", moved)
	}
}

// regroupServer makes a server of four devices that share two, which regroups them; neighbours are together.
func regroupServer(t *testing.T, memory uint64) *Server {
	t.Helper()
	s := serverOf(t, "test", []int{0, 0, 1, 1}, memory, memory)
	s.cfg.Regroup = true
	return s
}

// fourContexts are the contexts that fillDevices makes.
var fourContexts = [4]uint64{0x101, 0x102, 0x103, 0x104}

// fillDevices makes a context and memory on each of four devices, of which the first and the third, and the second and the
// fourth, are alike, and returns where the memory is.
func fillDevices(c *client) (at [4]uint64) {
	for d, x := range fourContexts {
		c.beginContext(x, int32(d))
		at[d] = c.alloc(2 * backend.Granule)
		c.must("cuMemsetD8_v2", at[d], uint8(1+d%2), uint64(2*backend.Granule))
		c.must("cuCtxSynchronize")
	}
	return at
}

// checkFilled checks the memory of fillDevices.
func checkFilled(t *testing.T, c *client, at [4]uint64) {
	t.Helper()
	for d, x := range fourContexts {
		c.context = x
		if got := c.readBytes(at[d], 64); !bytes.Equal(got, bytes.Repeat([]byte{byte(1 + d%2)}, 64)) {
			t.Errorf("device %d has %v", d, got[:4])
		}
	}
}

// readProperties reads the properties of its devices that a program can ask for.
func readProperties(c *client) (all [][]byte) {
	for d, x := range fourContexts {
		c.context = x
		all = append(all, c.must("cuDeviceGetUuid_v2", int32(d)), c.must("cuDeviceGetPCIBusId", int32(64), int32(d)), c.must("cuDeviceTotalMem_v2", int32(d)),
			c.must("cuMemGetInfo_v2"))
		for to := range int32(4) {
			all = append(all, c.must("cuDeviceCanAccessPeer", int32(d), to))
		}
	}
	return all
}

// TestRegrouped: a job that begins on fewer devices than its programs see, where neighbours share, goes on after its
// first save with devices of like memory together. Programs see no change, and the next save moves no device.
func TestRegrouped(t *testing.T) {
	for _, way := range []string{"a save", "an attempt", "an attempt that its leader ends"} {
		s := regroupServer(t, 64<<20)
		_, cs := attachProcess(t, s, 1)
		c := cs[0]
		at, before := fillDevices(c), readProperties(c)
		checkPlaced(t, s, []int{0, 0, 1, 1})
		for range 2 {
			var o SaveOptions
			var found *cut.Cut
			if way != "a save" {
				found = mustFind(t, cut.Options{Tick: long}, s)
				o.Attempt = attempts.Load()
			}
			saveJob(t, s, Folder(t.TempDir()), o)
			if way == "an attempt that its leader ends" { // as leaders do, unless the job was restored
				mustOpen(t, found)
			} else if err := s.Resume(); err != nil {
				t.Fatal(err)
			}
			checkPlaced(t, s, []int{0, 1, 0, 1})
			for i, d := range s.Status().Sharing {
				if d.Spaces != 2 || d.Alike != backend.Granule { // both blocks of a device are the same
					t.Errorf("device %d has %d spaces, with %d bytes alike", i, d.Spaces, d.Alike)
				}
			}
			checkFilled(t, c, at)
			if after := readProperties(c); !slices.EqualFunc(before, after, bytes.Equal) {
				t.Errorf("a program sees other devices: %v, before: %v", after, before)
			}
		}
	}
}

// TestNotRegrouped: devices stay where an order has put them, where they were told to stay, and where a job was not saved.
func TestNotRegrouped(t *testing.T) {
	neighbours := []int{0, 0, 1, 1}
	for _, c := range []struct {
		name string
		do   func(s *Server) error
	}{
		{"regrouping is off", func(s *Server) error { s.cfg.Regroup = false; return nil }},
		{"an order was given", func(s *Server) error { return s.Place(t.Context(), neighbours) }},
	} {
		s := regroupServer(t, 64<<20)
		_, cs := attachProcess(t, s, 1)
		at := fillDevices(cs[0])
		if err := c.do(s); err != nil {
			t.Fatal(err)
		}
		saveJob(t, s, Folder(t.TempDir()), SaveOptions{})
		if err := s.Resume(); err != nil {
			t.Fatal(err)
		}
		checkPlaced(t, s, neighbours)
		checkFilled(t, cs[0], at)
	}
	s := regroupServer(t, 64<<20)
	_, cs := attachProcess(t, s, 1)
	fillDevices(cs[0])
	if err := s.Place(t.Context(), []int{0, 0, 7, 7}); err == nil {
		t.Error("placed on devices that are not there")
	}
	saveJob(t, s, Folder(t.TempDir()), SaveOptions{})
	if err := s.Arrange(t.Context(), []int{1, 1, 1, 1}); err != nil { // the decision of the save is out of date
		t.Fatal(err)
	}
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	checkPlaced(t, s, []int{1, 1, 1, 1})
}

// TestRegroupedWork: at each save, two devices of a job that are drawn at random are alike, and the job may be regrouped,
// with work in its queues. In the end the job has the same bytes as a job that is never saved.
func TestRegroupedWork(t *testing.T) {
	seeds := uint64(3)
	if testing.Short() {
		seeds = 1
	}
	const room, rounds, steps = 3 * backend.Granule, 8, 10
	for seed := range seeds {
		calm, s := newTroupe(t, serverOf(t, "test", nil, room, room, room, room), seed), regroupServer(t, room)
		w := newTroupe(t, s, seed)
		r, moved := rand.New(rand.NewPCG(seed, 17)), 0
		for range rounds {
			calm.playSteps(steps)
			w.playSteps(steps)
			all := r.Perm(4)
			calm.makeAlike(all[0], all[1])
			w.makeAlike(all[0], all[1])
			was := placesOf(s)
			saveJob(t, s, Folder(t.TempDir()), SaveOptions{})
			if err := s.Resume(); err != nil {
				t.Fatal(err)
			}
			if is := placesOf(s); !slices.Equal(is, was) {
				moved++
				checkPlaced(t, s, is)
			}
		}
		got, want := w.playSteps(steps), calm.playSteps(steps)
		t.Logf("seed %d: regrouped %d times in %d saves", seed, moved, rounds)
		if !bytes.Equal(got, want) || len(bytes.Trim(got, "\x00")) == 0 || moved == 0 {
			t.Errorf("seed %d: other bytes than without, regrouped %d times", seed, moved)
		}
	}
}

// makeAlike has the large memory of two of the four devices become alike, and queues more work, on small memory.
func (w *troupe) makeAlike(a, b int) {
	same := w.r.Uint32()
	for i, p := range w.all {
		for d := range 2 {
			value := w.r.Uint32()
			if at := 2*i + d; at == a || at == b {
				value = same
			}
			p.context = troupeContexts[d]
			p.post("cuMemsetD32Async", p.large[d], value, uint64(backend.Granule/4), uint64(0))
			p.must("cuCtxSynchronize")
		}
	}
	for _, p := range w.all {
		for d := range 2 {
			p.context = troupeContexts[d]
			p.post("cuMemsetD32Async", p.memory[d], w.r.Uint32(), uint64(8), uint64(0))
		}
	}
}

// TestTenantsMove: two capsules that share a device server change places at the same time, again and again: neither holds up
// the other.
func TestTenantsMove(t *testing.T) {
	b, err := softgpu.New(softgpu.Config{Seed: "shared", Workers: 1, Memory: []uint64{testMemory, testMemory}})
	if err != nil {
		t.Fatal(err)
	}
	all, err := NewTenants(TenantsConfig{Backend: b, Log: slog.New(slog.DiscardHandler), Info: func(int) []backend.Info { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	for n, s := range tenantServers(t, all, 2) {
		_, cs := attachProcess(t, s, 1)
		cs[0].beginContext(ctxA, 0)
		cs[0].beginContext(ctxB, 1)
		go func() {
			for i := range 20_000 {
				if err := s.Place(t.Context(), []int{(i + n) % 2, (i + n + 1) % 2}); err != nil {
					ended <- err
					return
				}
			}
			ended <- nil
		}()
	}
	for range 2 {
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(long):
			t.Fatal("the capsules hold up each other")
		}
	}
	if err := all.Close(); err != nil {
		t.Error(err)
	}
}

// TestChooseOrder: an order is chosen when it is the same after twice as many sums, and not by the first sums.
func TestChooseOrder(t *testing.T) {
	sums := func(comm string, times uint64, devices ...int) (all []deviceSums) {
		for _, d := range devices {
			all = append(all, deviceSums{comm, d, nccl.Sums{Times: times, Bytes: 1000}})
		}
		return all
	}
	near := func(times uint64) []deviceSums {
		return slices.Concat(sums("a", times, 0, 1), sums("b", times, 2, 3))
	}
	far := func(times uint64) []deviceSums {
		return slices.Concat(sums("c", times, 0, 2), sums("d", times, 1, 3))
	}
	neighbours, others := []int{0, 0, 1, 1}, []int{0, 1, 0, 1}
	var k sumsWatch
	for i, c := range []struct {
		sums        []deviceSums
		order, want []int
	}{
		{slices.Concat(near(8), far(1)), neighbours, nil},     // 36 sums say too little
		{slices.Concat(near(40), far(2)), neighbours, nil},    // said once
		{slices.Concat(near(60), far(3)), neighbours, nil},    // not yet twice as many
		{slices.Concat(near(80), far(4)), neighbours, others}, // said twice
		{slices.Concat(near(160), far(8)), others, nil},       // it is so
		{slices.Concat(near(320), far(16)), others, nil},
		{slices.Concat(near(700), far(90_000)), others, nil}, // the opposite, once
		{slices.Concat(near(200_000), far(400_000)), others, neighbours},
	} {
		if got := k.chooseOrder(c.order, c.sums); !slices.Equal(got, c.want) {
			t.Errorf("%d: %v, want %v", i, got, c.want)
		}
	}
}

// TestRegroupedByCommunicators: a job of two replicas of two tensor-parallel ranks begins on two devices, where neighbours
// share: the ranks of a replica. While the job runs, before its first save, the replicas of a rank come to share a device,
// and share it after the save, too.
func TestRegroupedByCommunicators(t *testing.T) {
	const tensor, replicas, most = commB, 0x40003, 100
	b, err := softgpu.New(softgpu.Config{Seed: "test", Workers: 1, Memory: []uint64{testMemory, testMemory}})
	if err != nil {
		t.Fatal(err)
	}
	s := New(Config{Backend: b, Log: slog.New(slog.DiscardHandler), Order: []int{0, 0, 1, 1}, Regroup: true, Network: nccl.OverTCP("127.0.0.1")})
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	all := makeRanks(t, s, s, s, s)
	splitBy(all, commA, tensor, 0, 0, 1, 1)
	splitBy(all, commA, replicas, 0, 1, 0, 1)
	for _, r := range all {
		r.waitForState(tensor)
		r.waitForState(replicas)
	}
	where := func() []int {
		s.state.mu.Lock()
		defer s.state.mu.Unlock()
		return placesOf(s)
	}
	checkPlaced(t, s, []int{0, 0, 1, 1})
	miniBatches := 0
	for want := []int{0, 1, 0, 1}; !slices.Equal(where(), want); miniBatches++ {
		if miniBatches > most {
			t.Fatalf("after %d mini-batches devices are on %v", miniBatches, where())
		}
		for range 4 {
			checkSums(t, all[:2], tensor, 3)
			checkSums(t, all[2:], tensor, 3)
		}
		checkSums(t, []rank{all[0], all[2]}, replicas, 3)
		checkSums(t, []rank{all[1], all[3]}, replicas, 3)
	}
	t.Logf("regrouped after %d mini-batches", miniBatches)
	saveJob(t, s, Folder(t.TempDir()), SaveOptions{})
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	checkPlaced(t, s, []int{0, 1, 0, 1})
	checkSums(t, all[:2], tensor, 3)
}

// TestRegroupedLate: a space that cannot be interrupted stays when devices are regrouped while the job runs, and follows
// when it can.
func TestRegroupedLate(t *testing.T) {
	s := regroupServer(t, testMemory)
	_, cs := attachProcess(t, s, 2)
	c, other := cs[0], cs[1]
	c.beginContext(ctxA, 1)
	c.must("cuStreamCreate", uint64(streamA), uint32(1))
	c.must("cuStreamCreate", uint64(streamB), uint32(1))
	a := c.alloc(64)
	spin := u64(c.must("cuModuleGetFunction", c.loadModule(spinning), "spin"))
	c.launchShape(spin, [7]uint32{1, 1, 1, 1, 1, 1, 0}, streamA, binary.LittleEndian.AppendUint64(nil, a))
	other.context = ctxA
	for begun := make([]byte, 4); begun[0] == 0; { // before its block runs, the kernel can be interrupted
		other.must("cuMemcpyDtoHAsync_v2", uint64(uintptr(unsafe.Pointer(&begun[0]))), a+4, uint64(4), uint64(streamB))
		other.must("cuStreamSynchronize", uint64(streamB))
	}
	k := sumsWatch{late: true}
	s.devices[1].SetPlace(s.machine.placeAt(1))
	if over, late := k.watchSums(s); over || !late {
		t.Errorf("moved under a kernel that does not end: over %t, late %t", over, late)
	}
	other.post("cuMemsetD32Async", a, uint32(1), uint64(1), uint64(streamB))
	other.must("cuStreamSynchronize", uint64(streamA))
	if over, late := k.watchSums(s); over || late {
		t.Errorf("the kernel has ended: over %t, late %t", over, late)
	}
	if st := s.Status(); st.Sharing[0].Spaces != 0 || st.Sharing[1].Spaces != 1 {
		t.Errorf("spaces are on %+v", st.Sharing)
	}
}
