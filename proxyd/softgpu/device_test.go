// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"encoding/binary"
	"slices"
	"sync"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// makeContext makes a backend, which ends with the test, and a context on its first device.
func makeContext(t *testing.T, cfg Config) (backend.Device, backend.Space, backend.Context) {
	t.Helper()
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	device := b.Devices()[0]
	s, err := device.NewSpace(backend.SpaceConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Map(); err != nil {
		t.Fatal(err)
	}
	c, err := s.NewContext(0)
	if err != nil {
		t.Fatal(err)
	}
	return device, s, c
}

// TestLargeDevice: a device of 80 GiB takes no memory of the host until it is touched.
func TestLargeDevice(t *testing.T) {
	_, s, c := makeContext(t, Config{Memory: []uint64{80 << 30}})
	const size = 20 << 30
	a, err := c.Alloc(size)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Legacy().Fill(backend.Fill{Addr: a + size/2, Value: 1, Element: 1, Width: 10}); err != nil {
		t.Fatal(err)
	}
	if err := c.Synchronize(t.Context()); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	hashes := map[backend.Hash]int{}
	if err := s.Blocks(&[32]byte{}, func(_ backend.BlockID, h backend.Hash) bool {
		mu.Lock()
		defer mu.Unlock()
		hashes[h]++
		return true
	}); err != nil {
		t.Fatal(err)
	}
	counts := []int{}
	for _, n := range hashes {
		counts = append(counts, n)
	}
	slices.Sort(counts)
	if !slices.Equal(counts, []int{1, size/backend.Granule - 1}) {
		t.Errorf("numbers of blocks by hash: %v, want one written block and the rest zero", counts)
	}
}

func TestBadConfig(t *testing.T) {
	for _, n := range []uint64{0, 12345, 1 << 41} {
		if _, err := New(Config{Memory: []uint64{1 << 30, n}}); backend.ResultOf(err) != backend.InvalidValue {
			t.Errorf("memory of %d bytes: %v", n, err)
		}
	}
}

func TestSeedMakesUUIDs(t *testing.T) {
	uuid := func(seed string) [16]byte {
		b, err := New(Config{Memory: []uint64{1 << 30}, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		return b.Devices()[0].Info().UUID
	}
	if first, again, other := uuid("a"), uuid("a"), uuid("b"); first != again || first == other {
		t.Error("the seed does not make the UUID")
	}
}

// TestAllSharedMemory: a kernel runs with as much shared memory of a block as the device says that a kernel may ask for,
// and not with a byte more, be the memory dynamic or static.
func TestAllSharedMemory(t *testing.T) {
	const text = `
.version 7.0
.target sm_80
.address_size 64
.extern .shared .align 4 .b8 all[];
.visible .entry fill(.param .u64 out, .param .u32 last) {
	.reg .b64 %rd<3>;
	.reg .b32 %r<5>;
	ld.param.u64 %rd1, [out];
	ld.param.u32 %r1, [last];
	mov.u32 %r2, all;
	add.u32 %r2, %r2, %r1;
	mov.u32 %r3, 7;
	st.shared.u32 [%r2], %r3;
	ld.shared.u32 %r4, [%r2];
	st.global.u32 [%rd1], %r4;
	ret;
}
.visible .entry static() {
	.shared .align 4 .b8 own[232448];
	.reg .b32 %r<2>;
	mov.u32 %r1, own;
	st.shared.u32 [%r1], %r1;
	ret;
}
`
	for _, capability := range []Capability{80, 89, 90, 100} {
		t.Run(capability.String(), func(t *testing.T) {
			device, _, c := makeContext(t, Config{Memory: []uint64{64 << 20}, Capability: capability})
			m, log, err := c.Load([]byte(text), backend.LoadConfig{})
			if err != nil {
				t.Fatalf("Load: %v\nlog: %s", err, log.Error)
			}
			f, err := m.Function("fill")
			if err != nil {
				t.Fatal(err)
			}
			out, err := c.Alloc(4)
			if err != nil {
				t.Fatal(err)
			}
			most := device.Info().Attributes[backend.MaxSharedPerBlockOptin]
			if err := f.SetAttribute(backend.FuncMaxDynamicShared, most+1); backend.ResultOf(err) != backend.InvalidValue {
				t.Errorf("dynamic shared memory of %d bytes: %v, want InvalidValue", most+1, err)
			}
			if err := f.SetAttribute(backend.FuncMaxDynamicShared, most); err != nil {
				t.Fatal(err)
			}
			params := binary.LittleEndian.AppendUint64(nil, uint64(out))
			params = binary.LittleEndian.AppendUint32(params, uint32(most)-4)
			one := backend.Dim{X: 1, Y: 1, Z: 1}
			if err := c.Legacy().Launch(backend.Launch{Function: f, Grid: one, Block: one, Shared: uint32(most), Params: params}); err != nil {
				t.Fatal(err)
			}
			if err := c.Synchronize(t.Context()); err != nil {
				t.Errorf("a kernel with %d bytes: %v", most, err)
			}
			static, err := m.Function("static")
			if err != nil {
				t.Fatal(err)
			}
			want := backend.Success
			if most < 232448 {
				want = backend.InvalidValue
			}
			if err := c.Legacy().Launch(backend.Launch{Function: static, Grid: one, Block: one}); backend.ResultOf(err) != want {
				t.Errorf("a kernel with 232448 static bytes, of %d: %v", most, err)
			}
			if err := c.Synchronize(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
