// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package softgpu is the software GPU: devices in the server's memory, with kernels that package ptx runs.
// Results do not depend on the host's cores, nor on how many spaces share a device.
//
//	ledger    memory that calls may name: see package ledger              ledger.go vmm.go
//	table     memory that running work finds: addresses over bytes     table.go arena_unsafe.go
//	gate      lets work run while its space is mapped                    see package gate
//	operation a piece of work in a stream's queue                      work.go stream.go
//	reclaimer keeps bytes until no work uses them any more               work.go
//	holdings  which spaces are in a device's memory, not in the host's    swap.go
//	sums      hashes of blocks that were not written since               hash.go block_sums.go, package pages
//	code      memory that modules take of the node                  code_memory.go
//	common    bytes that spaces of a device have in common               common_blocks*.go, package pages
//	splicer   kernels that spaces of a device launch alike               splice.go, package splice
//	family    a launch with the launches by its threads                  family.go
//	share     memory and events of several processes                    share.go
//
// The ledger changes at the call and the table in the order of the work. So memory that is freed while work still uses
// it is free for other allocations at once, and the next owner waits.
//
// # Locks
//
//	device.mu → space.mu → table.mu → (the engine's)
//	device.mu → space.mu → Backend.mu
//	device.mu → space.mu → another's space.mu, of spaces of the same device
//	space.mu, exec.Mu → context.mu → stream.mu; event.mu, reclaimer.mu, sums.mu and commonBlocks.mu
//	are taken last, and so is splicer.mu
//
// No lock is held while work runs or is waited for. An operation waits only for operations that were queued earlier, so
// that no two wait for each other. Therefore each mark that other work can wait for (of an event's recording, of freed
// addresses) is published when its operation is queued.
package softgpu

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/pages"
)

// Name is the name of the devices.
const Name = "Singularity software GPU"

// Config describes the devices of a backend.
type Config struct {
	Memory  []uint64 // bytes of each device, multiples of Granule
	Seed    string   // makes the UUIDs; the same seed gives the same UUIDs
	Workers int      // cores that a kernel may use at most, 0: all
	// Separate has each space keep bytes of its own, also where spaces of a device hold the same, to measure the cost
	// of that.
	Separate bool
	// Splice has kernels that spaces of a device launch alike run for one of them: see splice.go.
	Splice bool

	Capability Capability // 0: DefaultCapability
	// Interpret has kernels interpreted where they could be compiled to machine code. The results are the same bits.
	Interpret bool
	// Compiled keeps machine code of kernels for later processes, as package codecache does; nil: each process compiles
	// all that it launches.
	Compiled CodeStore
	// Code is how much memory the code of all modules may take, as estimated; 0: half of the node's.
	Code uint64
}

// CodeStore keeps machine code. What Load returns is executed. Its methods may be called concurrently.
type CodeStore interface {
	Load(key [sha256.Size]byte) []byte // nil: there is none
	Save(key [sha256.Size]byte, data []byte)
}

// How kernels are executed.
const (
	CompiledKernels    = "compiled"
	InterpretedKernels = "interpreted"
)

// Kernels says how kernels are executed: CompiledKernels, or InterpretedKernels with the reason.
func (b *Backend) Kernels() string { return b.engine.describeKernels() }

// Products tells whether a program had this backend compute matrix products in the place of cuBLAS.
func (b *Backend) Products() bool { return b.products.Load() }

// Backend is a set of software GPUs.
type Backend struct {
	cfg     Config
	engine  engine
	devices []backend.Device
	code    *codeMemory
	// products: a program has loaded the code of package gemm
	products atomic.Bool
	epoch    time.Time

	ctx    context.Context // ends kernels when the backend is closed
	cancel context.CancelFunc

	mu     sync.Mutex
	spaces map[*space]bool
	made   uint64                  // spaces, until now
	pins   map[*operation][][]byte // buffers that collectives work on
	shared map[shareKey]*arena
}

var (
	_ backend.Backend      = (*Backend)(nil)
	_ backend.BufferSharer = (*Backend)(nil)
)

// New makes a backend. A memory size that is 0 or no multiple of Granule is InvalidValue, and so is a capability that
// ParseCapability does not return.
func New(cfg Config) (*Backend, error) { return newBackend(cfg, newEngine(&cfg)) }

// Prepare opens /proc/self/pagemap, from which the kernel tells a process about its own memory. A process that becomes
// a user's calls Prepare before, as root; otherwise the devices cannot have memory in common, and take all memory for
// touched and written.
func Prepare() error { return pages.OpenMap() }

func newBackend(cfg Config, e engine) (*Backend, error) {
	cfg.Capability = cmp.Or(cfg.Capability, DefaultCapability)
	if _, ok := capabilities[cfg.Capability]; !ok {
		return nil, fmt.Errorf("compute capability %s: %w", cfg.Capability, backend.InvalidValue)
	}
	b := &Backend{cfg: cfg, engine: e, code: newCodeMemory(cfg.Code), epoch: time.Now(), spaces: map[*space]bool{}, pins: map[*operation][][]byte{}, shared: map[shareKey]*arena{}}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	for i, n := range cfg.Memory {
		if n == 0 || n%backend.Granule != 0 || n > 1<<40 {
			return nil, fmt.Errorf("device %d: %d bytes of memory: %w", i, n, backend.InvalidValue)
		}
		d := &device{backend: b, info: Describe(cfg, i, n)}
		if !cfg.Separate {
			d.common = pages.NewPool(backend.Granule)
		}
		if cfg.Splice {
			var err error
			if d.splicer, err = newSplicer(n); err != nil {
				return nil, err
			}
		}
		b.devices = append(b.devices, d)
	}
	return b, nil
}

// Describe returns the Info of the i-th device of such a backend, which has so many bytes of memory.
func Describe(cfg Config, i int, memory uint64) backend.Info {
	info := backend.Info{Name: Name, Memory: memory, Attributes: attributesOf(cmp.Or(cfg.Capability, DefaultCapability))}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", cfg.Seed, i))
	copy(info.UUID[:], sum[:])
	info.PCI = backend.PCI{Bus: uint32(i%255 + 1), Domain: uint32(i / 255)}
	info.Attributes[backend.PCIBusID] = int32(info.PCI.Bus)
	info.Attributes[backend.PCIDomainID] = int32(info.PCI.Domain)
	info.Attributes[backend.MultiGPUBoardGroup] = int32(i)
	return info
}

// Devices implements backend.Backend.
func (b *Backend) Devices() []backend.Device { return b.devices }

// Close implements backend.Backend.
func (b *Backend) Close() error {
	b.cancel()
	b.mu.Lock()
	var all []*space
	for s := range b.spaces {
		all = append(all, s)
	}
	b.mu.Unlock()
	for _, s := range all {
		_ = s.Close()
	}
	for _, d := range b.devices {
		if c := d.(*device).common; c != nil {
			_ = c.Close()
		}
	}
	return nil
}

// timeSinceStart is the backend's clock: the time since the backend was made.
func (b *Backend) timeSinceStart() time.Duration { return time.Since(b.epoch) }

// device is a software GPU.
type device struct {
	backend *Backend
	info    backend.Info

	issued   atomic.Uint64 // instructions of warps, in all
	mu       sync.Mutex
	mapped   *space
	holdings holdings
	common   *pages.Pool // nil: each space has bytes of its own
	splicer  *splicer    // nil: each space runs all its kernels
}

// Info implements backend.Device.
func (d *device) Info() *backend.Info { return &d.info }

// MayOverlap implements backend.Overlapper: kernels find memory by a table of their space.
func (d *device) MayOverlap() {}

// Instructions implements backend.InstructionCounter.
func (d *device) Instructions() uint64 { return d.issued.Load() }
