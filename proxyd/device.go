// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/config/table"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/life"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/nccl"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu"
)

// deviceOptions are the settings of a device server: its flags, and descriptors that its parent hands over.
type deviceOptions struct {
	socket   string
	gate     int    // a descriptor that tells the user to become, or -1: see package life
	listen   int    // a socket that has its name already, instead of socket, or -1
	kind     string // soft or cuda
	attempt  int    // how often this program has executed itself in chooseProcess
	soft     int    // devices that programs see, if no order says otherwise
	on       int    // devices of this machine; 0: as many as soft
	memory   string
	shows    string // the compute capability of software GPUs
	kernels  string // how they execute kernels
	address  string // of this host, for device servers of other hosts
	ready    int    // a descriptor that is written to when the server listens, or -1
	lifeline int    // a descriptor: its end of file ends the server, or -1
	folder   string // a folder that the server removes when its lifeline has ended it, or ""
	control  int    // a socket on which the parent gives orders, listening, or -1
	self     int    // this server's number among the job's servers
	await    bool   // attach no process before a restore
	rung     string // how far ranks that share a device may share their memory, too
	exact    bool   // reductions do not depend on where ranks are
	spare    int    // devices beyond soft, for Server.Place
	tenants  bool   // serve several capsules, which are admitted over control
	lie      string // addresses of the devices' memory, or ""
	order    []int
	regroup  bool   // Server.Config.Regroup
	status   string // a file for the server's last status, or ""
	code     string // a folder for machine code of kernels, codeOff, or "": the user's (code_cache.go)
	verbose  bool
}

// addDeviceFlags adds the flags that say which devices there are.
func (o *deviceOptions) addDeviceFlags(c *cobra.Command) {
	c.Flags().IntVar(&o.soft, "soft", 1, "make `N` software GPUs")
	c.Flags().IntVar(&o.on, "on", 0, "have them share `M` software GPUs, each as large as one of them; what does not\nfit there at once is swapped to the host's memory (default: N)")
	c.Flags().IntSliceVar(&o.order, "order", nil, "have them on these `DEVICES`, several of them on the same one, too: as 1,0 or 0,0,1,1")
	c.Flags().StringVar(&o.memory, "memory", "4G", "give each of them so many bytes of memory: a `SIZE` as 512M or 16G")
	c.Flags().StringVar(&o.shows, "capability", softgpu.DefaultCapability.String(), "have them show this compute `CAPABILITY`: 8.0, 8.9, 9.0 or 10.0. Below 10.0\ncuBLAS and its like load machine code, which they cannot run")
	c.Flags().StringVar(&o.kernels, "kernels", softgpu.CompiledKernels, "have software GPUs execute kernels `HOW`: compiled, as machine code, where the processor has AVX-512, or\ninterpreted; the results are the same bits")
	c.Flags().StringVar(&o.rung, "rung", server.RungSplice, "`HOW` ranks that share a software GPU share it: swap has a copy of their memory for each, alias has bytes\nthat are the same there once, splice also has kernels that they launch alike run for one of them, where that pays")
	c.Flags().StringVar(&o.lie, "addresses", "", "have their memory lie at these `ADDRESSES`, each device's behind that of the device before: where the first begins\nand how many each has, as 8T+24T. Programs that reserve addresses themselves may need more than there are else,\nas proxyd run --cuda does over software GPUs")
	c.Flags().StringVar(&o.address, "address", "", "reach other hosts' device servers, for collectives, from this `ADDRESS` of the host's\n(default: the first that is one beyond it)")
	c.Flags().BoolVar(&o.exact, "exact", false, "have sums over GPUs be the same bits however many there are, at a price on real ones\n(software GPUs: always)")
	c.Flags().StringVar(&o.status, "status", "", "write what the devices did to `FILE` when all is over, as JSON: instructions, switches between\nprocesses that share a device, bytes that were swapped for that")
	c.Flags().StringVar(&o.code, "code-cache", "", codeHelp)
	c.Flags().BoolVarP(&o.verbose, "verbose", "v", false, "say which processes come and go")
}

// maxSoft is how many software GPUs there can be: a program's ring has leases for as many.
const maxSoft = 16

// softConfig makes the configuration of package softgpu from the flags.
func (o *deviceOptions) softConfig() (softgpu.Config, error) {
	memory, err := table.ParseBytes(o.memory)
	switch {
	case err != nil || memory < backend.Granule || memory > 1<<40: // ParseBytes takes more, but no GPU has such a size
		return softgpu.Config{}, fmt.Errorf("--memory %q: it is a size from 2M to 1T, as 512M or 16G; %w", o.memory, errUsage)
	case o.soft < 1 || o.soft > maxSoft:
		return softgpu.Config{}, fmt.Errorf("--soft %d: it is from 1 to %d; %w", o.soft, maxSoft, errUsage)
	case o.spare < 0 || o.spare > maxSoft:
		return softgpu.Config{}, fmt.Errorf("--spare %d: it is from 0 to %d; %w", o.spare, maxSoft, errUsage)
	case o.on < 0 || o.on > o.soft:
		return softgpu.Config{}, fmt.Errorf("--on %d: it is from 1 to the %d that share them; %w", o.on, o.soft, errUsage)
	}
	if o.rung != server.RungSplice && o.rung != server.RungAlias && o.rung != server.RungSwap {
		return softgpu.Config{}, fmt.Errorf("--rung %q: it is splice, alias or swap; %w", o.rung, errUsage)
	}
	shows, err := softgpu.ParseCapability(o.shows)
	if err != nil {
		return softgpu.Config{}, fmt.Errorf("--capability: %w; %w", err, errUsage)
	}
	if o.kernels != softgpu.CompiledKernels && o.kernels != softgpu.InterpretedKernels {
		return softgpu.Config{}, fmt.Errorf("--kernels %q: it is compiled or interpreted; %w", o.kernels, errUsage)
	}
	c := softgpu.Config{Seed: "singularity-slurm", Capability: shows, Interpret: o.kernels == softgpu.InterpretedKernels, Separate: o.rung == server.RungSwap, Splice: o.rung == server.RungSplice}
	for range cmp.Or(o.on, o.soft) + o.spare {
		c.Memory = append(c.Memory, memory/backend.Granule*backend.Granule)
	}
	return c, nil
}

// addressRange parses --addresses; the zero Range if the flag is not set.
func (o *deviceOptions) addressRange() (r backend.Range, err error) {
	if o.lie == "" {
		return r, nil
	}
	from, size, both := strings.Cut(o.lie, "+")
	base, err := table.ParseBytes(from)
	if err == nil {
		r.Size, err = table.ParseBytes(size)
	}
	const tib, top = 1 << 40, 1 << 47
	if !both || err != nil || base == 0 || r.Size == 0 || base%tib != 0 || r.Size%tib != 0 || base > top || r.Size > top-base {
		return r, fmt.Errorf("--addresses %q: it is two multiples of 1T below 128T in all, as 8T+24T; %w", o.lie, errUsage)
	}
	r.Base = backend.Addr(base)
	return r, nil
}

// shownDevices describes the devices to programs, wherever the devices are.
func (o *deviceOptions) shownDevices(cfg softgpu.Config) []backend.Info {
	return describeDevices(cfg, max(o.soft, len(o.order)))
}

// describeDevices describes n devices to programs.
func describeDevices(cfg softgpu.Config, n int) (all []backend.Info) {
	for i := range n {
		all = append(all, softgpu.Describe(cfg, i, cfg.Memory[0]))
	}
	return all
}

// deviceCommand is the device server's process. People do not run this command: "run" starts a
// device server.
func deviceCommand() *cobra.Command {
	o := &deviceOptions{}
	c := &cobra.Command{
		Use: "device", Short: "Hold devices for the processes that connect to a socket", Hidden: true, Args: wantArguments(),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.chooseProcess(); err != nil {
				return fmt.Errorf("device: %w", err)
			}
			defer collectLessOften()()
			if o.gate >= 0 {
				switch err := life.Become(o.gate, max(o.gate, o.listen, o.control), softgpu.Prepare); {
				case errors.Is(err, life.ErrUnwanted):
					return nil
				case err != nil:
					return err
				}
			}
			if o.tenants {
				return serveTenants(c.Context(), o)
			}
			if o.socket == "" && o.listen < 0 {
				return fmt.Errorf("device: --socket names no file; %w", errUsage)
			}
			return serveDevices(c.Context(), o)
		},
	}
	o.addDeviceFlags(c)
	c.Flags().StringVar(&o.kind, "kind", kindSoft, "have devices of this `KIND`: soft, or cuda for those of the machine")
	c.Flags().IntVar(&o.attempt, "attempt", 0, "have started again so often")
	c.Flags().StringVar(&o.socket, "socket", "", "listen at `FILE`")
	c.Flags().IntVar(&o.gate, "gate", -1, "become the user that this descriptor tells, before all else")
	c.Flags().IntVar(&o.listen, "listen", -1, "listen at this descriptor, a socket that has its name already, instead of at a FILE")
	c.Flags().IntVar(&o.ready, "ready", -1, "write a line to this descriptor when it listens, and close it")
	c.Flags().IntVar(&o.lifeline, "lifeline", -1, "end when this descriptor is at its end of file")
	c.Flags().StringVar(&o.folder, "remove", "", "remove `FOLDER` then: whoever has made it may have been killed")
	c.Flags().IntVar(&o.control, "control", -1, "take orders from the connections to this descriptor, a socket that listens")
	c.Flags().IntVar(&o.self, "self", 0, "be device server `N` of the job's, from 0")
	c.Flags().IntVar(&o.spare, "spare", 0, "make `N` more software GPUs, on which the job's are put only when it is told to")
	c.Flags().BoolVar(&o.regroup, "regroup", false, "have ranks that turn out to be alike share a device, whatever --order says")
	c.Flags().BoolVar(&o.tenants, "tenants", false, "serve no program at first, and several capsules of a job that --control admits")
	c.Flags().BoolVar(&o.await, "await", false, "have processes wait until it is told to restore")
	return c
}

// endGrace is the time in which a device server that is told to end does so in order.
const endGrace = 5 * time.Second

// endAnyway calls exit when over is still open grace after ctx is done, so that no call of a program can keep a server
// that is told to end.
func endAnyway(ctx context.Context, grace time.Duration, over <-chan struct{}, exit func()) {
	select {
	case <-ctx.Done():
	case <-over:
		return
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case <-late.C:
		exit()
	case <-over:
	}
}

// endInTime ends the process some time after ctx is done, unless the returned function was called before.
func (o *deviceOptions) endInTime(ctx context.Context) (over func()) {
	ended := make(chan struct{})
	go endAnyway(ctx, endGrace, ended, func() {
		o.openLog().Error("the device server was told to end, and something holds it up: it ends without waiting", "waited", endGrace)
		os.Exit(1)
	})
	return func() { close(ended) }
}

// serveDevices is a device server's life, until ctx is done or its lifeline ends.
func serveDevices(ctx context.Context, o *deviceOptions) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lie, err := o.addressRange()
	if err != nil {
		return err
	}
	defer o.endInTime(ctx)()
	b, shown, devices, err := o.openDevices()
	if err != nil {
		return err
	}
	if err := o.checkOrder(devices); err != nil {
		return errors.Join(err, b.Close())
	}
	s := server.New(server.Config{
		Backend: b, Order: o.order, Info: shown, Log: o.openLog(), Version: version, Network: nccl.OverTCP(o.address),
		Self: o.self, Awaits: o.await, Exact: o.exact, Spare: o.spare, Addresses: lie, Regroup: o.regroup,
	})
	defer func() { err = errors.Join(err, o.writeStatus(s), s.Close()) }()
	l, err := o.listenForPrograms()
	if err != nil {
		return err
	}
	if o.lifeline >= 0 {
		go func() {
			// The parent writes nothing to the lifeline; end of file means that the parent has ended.
			_, _ = io.Copy(io.Discard, os.NewFile(uintptr(o.lifeline), "lifeline"))
			if o.folder != "" {
				_ = os.RemoveAll(o.folder) // the maker of the folder removes it, too
			}
			cancel()
		}()
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	told, err := serveParent(s, o.control)
	if err != nil {
		return err
	}
	if o.ready >= 0 {
		f := os.NewFile(uintptr(o.ready), "ready")
		if _, err := f.WriteString("ready\n"); err != nil {
			return fmt.Errorf("say that it is ready: %w", err)
		}
		f.Close()
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-served:
		return err
	case err := <-told:
		return err
	}
}

// writeStatus writes the server's status to the file that was asked for.
func (o *deviceOptions) writeStatus(s *server.Server) error {
	if o.status == "" {
		return nil
	}
	text, err := json.MarshalIndent(s.Status(), "", "  ")
	if err == nil {
		err = os.WriteFile(o.status, append(text, '\n'), 0o666)
	}
	if err != nil {
		return fmt.Errorf("--status: %w", err)
	}
	return nil
}

// checkOrder checks and completes the order: for each device of the job, the number of this host's device. A saved
// state has the number of the job's devices.
func (o *deviceOptions) checkOrder(devices int) error {
	for _, i := range o.order {
		if i < 0 || i >= devices {
			return fmt.Errorf("--order: there is no device %d; %w", i, errUsage)
		}
	}
	switch {
	case len(o.order) > maxSoft:
		return fmt.Errorf("--order: %d devices, a job has up to %d; %w", len(o.order), maxSoft, errUsage)
	case o.order == nil && o.on != 0:
		o.order, o.regroup = server.Spread(o.soft, devices), true
	}
	return nil
}

// openLog returns the server's log: a log file of its own is bounded.
func (o *deviceOptions) openLog() *slog.Logger {
	level := slog.LevelWarn
	if o.verbose {
		level = slog.LevelInfo
	}
	var to io.Writer = os.Stderr
	if o.gate >= 0 {
		to = life.NewLog(os.Stderr)
	}
	return slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{Level: level}))
}

// serveParent has the server carry out its parent's orders, over an inherited socket. The channel
// tells when the server is to end.
func serveParent(s *server.Server, fd int) (<-chan error, error) {
	told := make(chan error, 1)
	if fd < 0 {
		return told, nil
	}
	l, err := listenToParent(fd)
	if err != nil {
		return nil, err
	}
	go func() {
		err := s.ServeControl(l)
		if errors.Is(err, server.ErrLeft) {
			err = nil
		}
		told <- err
	}()
	return told, nil
}

// listenToParent listens for the parent's connections.
func listenToParent(fd int) (*net.UnixListener, error) {
	// Other processes of this user may not trace a process that answers its parent.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, err
	}
	return openListener(fd, "control")
}

// listenForPrograms listens for processes of the capsule.
func (o *deviceOptions) listenForPrograms() (*net.UnixListener, error) {
	if o.listen < 0 {
		return listenDevices(o.socket)
	}
	if err := unix.Listen(o.listen, unix.SOMAXCONN); err != nil {
		return nil, fmt.Errorf("listen for processes: %w", err)
	}
	return openListener(o.listen, "devices")
}

// openListener makes a listener of an inherited descriptor.
func openListener(fd int, name string) (*net.UnixListener, error) {
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("socket for %s: %w", name, err)
	}
	u, ok := l.(*net.UnixListener)
	if !ok {
		l.Close()
		return nil, fmt.Errorf("socket for %s: it is none of this kind", name)
	}
	return u, nil
}

// listenDevices listens at a path, for processes of this user. A socket that a killed server has left there is removed.
func listenDevices(path string) (*net.UnixListener, error) {
	const longest = len(unix.RawSockaddrUnix{}.Path) - 1
	if len(path) > longest || strings.HasPrefix(path, "@") {
		return nil, fmt.Errorf("%s: a socket's name has up to %d bytes and does not begin with @", path, longest)
	}
	a := &net.UnixAddr{Name: path, Net: "unixpacket"}
	if st, err := os.Lstat(path); err == nil && st.Mode()&os.ModeSocket != 0 {
		c, err := net.DialUnix("unixpacket", nil, a)
		if err == nil {
			c.Close()
			return nil, fmt.Errorf("%s: another process listens there already", path)
		}
		if errors.Is(err, unix.ECONNREFUSED) {
			if err := os.Remove(path); err != nil {
				return nil, err
			}
		}
	}
	old := unix.Umask(0o177)
	defer unix.Umask(old)
	return net.ListenUnix("unixpacket", a)
}
