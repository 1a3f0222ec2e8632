// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/splice"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/memory"
)

// ptxEngine is package ptx.
type ptxEngine struct {
	interpret bool
	store     ptx.CodeStore // nil: machine code is not kept
}

func newEngine(cfg *Config) engine { return ptxEngine{cfg.Interpret, cfg.Compiled} }

// CheckMachineCode says why software GPUs only interpret kernels on this machine; nil if they compile them.
func CheckMachineCode() error { return ptx.Native() }

func (e ptxEngine) describeKernels() string {
	if e.interpret {
		return InterpretedKernels + ": as asked for"
	}
	if err := CheckMachineCode(); err != nil {
		return InterpretedKernels + ": " + err.Error()
	}
	return CompiledKernels
}

func (ptxEngine) newAddresses() addresses { return new(memory.Memory) }

// source is the driver's name for a program's text in its logs.
const source = "application ptx input"

// toDriverError gives ptx's errors the driver's number and the log's form.
func toDriverError(err error) (string, error) {
	var syntax *ptx.SyntaxError
	var refused *ptx.RefusedError
	line, msg, result := 0, err.Error(), backend.InvalidPTX
	switch {
	case errors.As(err, &syntax):
		line, msg = syntax.Line, syntax.Msg
	case errors.As(err, &refused):
		line, msg, result = refused.Line, fmt.Sprintf("%s is not supported: %s", refused.Opcode, refused.Reason), backend.NotSupported
	}
	text := fmt.Sprintf("ptxas fatal   : %s\n", msg)
	if line > 0 {
		text = fmt.Sprintf("ptxas %s, line %d; error   : %s\nptxas fatal   : Ptx assembly aborted due to errors\n", source, line, msg)
	}
	return text, fmt.Errorf("%w: %w", result, err)
}

func (e ptxEngine) compileProgram(texts []string, c Capability, cfg backend.LoadConfig) (program, backend.Log, error) {
	later := compilesLater(texts, cfg)
	parse := ptx.Parse
	if later {
		parse = ptx.ParseDeclarations
	}
	mods := make([]*ptx.Module, len(texts))
	for i, text := range texts {
		name := source
		if len(texts) > 1 {
			name = fmt.Sprintf("%s %d", source, i+1)
		}
		var err error
		if mods[i], err = parse(name, text); err != nil {
			log, err := toDriverError(err)
			return nil, backend.Log{Error: log}, err
		}
	}
	p, err := ptx.Link(mods...)
	if err != nil {
		log, err := toDriverError(err)
		return nil, backend.Log{Error: log}, err
	}
	return &ptxProgram{p, texts, cfg, c, later, e}, backend.Log{}, nil
}

// longText is the length from which on kernels are compiled at their first use. Shorter code is compiled when loaded,
// because then the driver reports errors of the code. Libraries have texts of many MB with hundreds of kernels, of
// which a program needs few, and no errors in them.
const longText = 128 << 10

// compilesLater decides when the kernels of texts are compiled. A program that asks for a verbose log, with the
// registers of each kernel, has all compiled at once.
func compilesLater(texts []string, cfg backend.LoadConfig) bool {
	size := 0
	for _, text := range texts {
		size += len(text)
	}
	return size > longText && !cfg.Verbose
}

// estimateMemory implements engine.
func (ptxEngine) estimateMemory(texts []string, cfg backend.LoadConfig) uint64 {
	size := uint64(0)
	for _, text := range texts {
		size += uint64(len(text))
	}
	if !compilesLater(texts, cfg) {
		size *= treeBytes
	}
	return size
}

type ptxProgram struct {
	*ptx.Program
	texts    []string
	cfg      backend.LoadConfig
	device   Capability
	deferred bool
	engine   ptxEngine
}

func (p *ptxProgram) isDeferred() bool { return p.deferred }

func (p *ptxProgram) variableSpace() (size, align uint64) { return p.Size(), p.Align() }

func (p *ptxProgram) placeVariables(base uint64) ([]byte, error) {
	b, err := p.Place(base)
	if err != nil {
		_, err = toDriverError(err)
	}
	return b, err
}

func (p *ptxProgram) listGlobals() []backend.Global {
	var out []backend.Global
	for _, g := range p.Globals() {
		out = append(out, backend.Global{Name: g.Name, Addr: backend.Addr(g.Offset), Size: g.Size, Managed: g.Managed})
	}
	return out
}

func (p *ptxProgram) kernelNames() []string { return p.Kernels() }

func (p *ptxProgram) findKernel(name string) (kernel, backend.Log, error) {
	k, err := p.Kernel(name)
	if err != nil {
		text, err := toDriverError(err)
		return nil, backend.Log{Error: text}, err
	}
	var info string
	if p.cfg.Verbose {
		info = fmt.Sprintf("ptxas info    : Compiling entry function '%s' for 'sm_%d'\n", name, p.device) +
			fmt.Sprintf("ptxas info    : Used %d registers, %d bytes smem, %d bytes lmem, %d bytes cmem\n", k.Registers, k.SharedSize, k.LocalSize, k.ParamSize)
	}
	return replaceKernel(ptxKernel{k, p.cfg.MaxRegisters, p.engine}, p.texts), backend.Log{Info: info}, nil
}

type ptxKernel struct {
	*ptx.Kernel
	limit  uint32 // of registers, as the program asked; 0: none
	engine ptxEngine
}

// targetVersion is the number in a target: 80 of "sm_80".
func targetVersion(target string) int32 {
	_, number, _ := strings.Cut(target, "_")
	n, _ := strconv.ParseInt(strings.TrimRight(number, "abcdefghijklmnopqrstuvwxyz"), 10, 32) // of a target that the parser took
	return int32(n)
}

func (k ptxKernel) kernelFacts() facts {
	f := facts{
		operations: k.Operations,
		shared:     k.SharedSize, local: k.LocalSize, constant: k.ConstSize, registers: k.Registers, maxThreads: k.MaxThreads,
		reqThreads: backend.Dim(k.ReqThreads), ptx: targetVersion(k.Target), hooks: k.CallsHooks, launches: k.Launches, targets: k.Targets,
	}
	for _, bound := range []uint32{k.MaxRegs, k.limit} { // the interpreter itself has no limit of registers
		if bound != 0 {
			f.registers = min(f.registers, bound)
		}
	}
	for _, p := range k.Params {
		f.params = append(f.params, backend.Param{Offset: p.Offset, Size: p.Size})
	}
	return f
}

// faultResults are the driver's numbers of the faults of a kernel.
var faultResults = map[ptx.FaultKind]backend.Result{
	ptx.IllegalAddress:     backend.IllegalAddress,
	ptx.MisalignedAddress:  backend.MisalignedAddress,
	ptx.Trapped:            backend.LaunchFailed,
	ptx.AssertFailed:       backend.Assert,
	ptx.IllegalInstruction: backend.IllegalInstruction,
	ptx.StackOverflow:      backend.HardwareStackError,
	ptx.BarrierDeadlock:    backend.LaunchFailed,
	ptx.InternalError:      backend.LaunchFailed,
}

// launchCodes are package ptx's codes of launches by threads.
var launchCodes = [...]ptx.LaunchCode{
	launchRecorded: ptx.LaunchRecorded, launchTooDeep: ptx.LaunchTooDeep, launchTooMany: ptx.LaunchTooMany,
	launchOutOfResources: ptx.LaunchOutOfResources, launchBadConfiguration: ptx.LaunchBadConfiguration,
}

// recordChild passes a launch by a thread on.
func (l *launch) recordChild(c ptx.Child) ptx.LaunchCode {
	return launchCodes[l.record(childLaunch{c.Kernel, backend.Dim(c.Grid), backend.Dim(c.Block), c.Shared, c.Params, c.Tail})]
}

func (k ptxKernel) runLaunch(ctx context.Context, l *launch) (uint64, error) {
	done := l.done
	sees, touched := l.viewMemory()
	if touched != nil {
		defer func() { l.seen.addTouched(touched) }()
	}
	cfg := ptx.Config{
		Grid: ptx.Dim3(l.grid), Block: ptx.Dim3(l.block), Shared: l.shared, Params: l.params, Memory: sees,
		MostChildren: l.slots,
		Cooperative:  l.cooperative, Workers: l.workers, StackSize: uint32(max(l.stack, ptx.DefaultStackSize)), SMs: l.sms,
		Issued: l.issued, Touched: touched,
		Done: &done, Paused: l.paused, Interpret: k.engine.interpret, Code: k.engine.store,
	}
	if k.CallsHooks {
		cfg.Hooks = l.makeHooks()
	}
	err := k.Launch(ctx, cfg)
	if err != nil {
		err = l.explainError(err)
	}
	return done, err
}

// makeHooks returns the services for the threads of a launch.
func (l *launch) makeHooks() ptx.Hooks {
	output, malloc, free, condition := l.output.addText, l.malloc, l.free, l.condition
	if seen := l.seen; seen != nil {
		output = func(fd int, text []byte) { seen.effects = true; l.output.addText(fd, text) }
		malloc = func(n uint64) uint64 { seen.effects = true; return l.malloc(n) }
		free = func(at uint64) { seen.effects = true; l.free(at) }
		condition = func(handle uint64, value uint32) { seen.effects = true; l.condition(handle, value) }
	}
	return ptx.Hooks{
		Printf: func(p ptx.Printf) { output(1, []byte(p.Text())) }, Malloc: malloc, Free: free, SetCondition: condition, LaunchKernel: l.recordChild,
	}
}

// explainError gives the error of a launch the driver's number, and prints what the driver prints.
func (l *launch) explainError(err error) error {
	var fault *ptx.Fault
	var refused *ptx.LaunchError
	switch {
	case errors.As(err, &fault):
		if fault.Kind == ptx.AssertFailed {
			if l.seen != nil {
				l.seen.effects = true
			}
			for _, a := range fault.Assertions {
				where := fmt.Sprintf(": block: [%d,%d,%d], thread: [%d,%d,%d] Assertion", fault.Block.X, fault.Block.Y, fault.Block.Z,
					a.Thread.X, a.Thread.Y, a.Thread.Z)
				l.output.addText(2, []byte(strings.Replace(a.Text, ": Assertion", where, 1)+"\n"))
			}
		}
		return fmt.Errorf("%w: %w", faultResults[fault.Kind], err)
	case errors.As(err, &refused):
		return fmt.Errorf("%w: %w", backend.LaunchFailed, err)
	default: // the space was closed
		return fmt.Errorf("%w: %w", backend.ContextIsDestroyed, err)
	}
}

// addTouched adds the memory that a launch, or a part of it, has accessed.
func (a *accesses) addTouched(t *memory.TouchedRanges) {
	for _, r := range t.Ranges() {
		x := splice.Span{Base: r.Base, Size: r.Size}
		if a.reads = append(a.reads, x); r.Written {
			a.writes = append(a.writes, x)
		}
	}
}
