// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"net"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/config/table"
	relayconfig "github.com/singularity-slurm/singularity-slurm/proxyd/relay/config"
	"github.com/singularity-slurm/singularity-slurm/proxyd/relay/connections"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
)

// relayCommand is the daemon that keeps connections of jobs to outside while the jobs are away.
func relayCommand() *cobra.Command {
	var file string
	load := func() (*relayconfig.Config, error) { return relayconfig.Load(file, os.Environ()) }
	c := &cobra.Command{
		Use: "relay", Short: "Keep connections of jobs to outside while the jobs are away, until SIGTERM", Args: wantArguments(),
		Example: "  proxyd relay\n  proxyd relay config --config /etc/singularity-slurm/relay.yaml",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := load()
			if err != nil {
				return err
			}
			return runRelay(c.Context(), cfg, cfg.Log.NewLogger(os.Stderr))
		},
	}
	c.PersistentFlags().StringVar(&file, "config", relayconfig.File, "read the configuration from `FILE`")
	show := &cobra.Command{
		Use: "config", Short: "Print the relay's configuration, each key with what it means", Args: wantArguments(),
		Example: "  proxyd relay config >relay.yaml.new",
		RunE: func(c *cobra.Command, _ []string) error {
			table.NoteEmpty(c.ErrOrStderr(), file)
			cfg, err := load()
			if err != nil {
				return err
			}
			return cfg.Explain(c.OutOrStdout())
		},
	}
	loadOnly := func() error { _, err := load(); return err }
	show.AddCommand(configCheckCommand(&file, loadOnly, "  proxyd relay config check"))
	c.AddCommand(show)
	return c
}

// relayLinksFD is the descriptor that the process without rights inherits: the listener for links.
const relayLinksFD = 3

// relayLinksCommand is the relay's process that handles jobs' connections, without any rights. Only the relay runs this
// command.
func relayLinksCommand() *cobra.Command {
	var level slog.Level
	c := &cobra.Command{
		Use: "relay-links", Short: "Carry connections for the relay", Hidden: true, Args: wantArguments(),
		RunE: func(c *cobra.Command, _ []string) error {
			// Other programs of its user must not be able to read jobs' bytes and tickets.
			if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
				return fmt.Errorf("relay-links: %w", err)
			}
			f := os.NewFile(relayLinksFD, "links")
			links, err := net.FileListener(f)
			f.Close()
			if err != nil {
				return fmt.Errorf("relay-links: %w", err)
			}
			return connections.Run(c.Context(), links, os.Stdin, os.Stdout, table.Log{Level: level}.NewLogger(os.Stderr))
		},
	}
	c.Flags().TextVar(&level, "level", slog.LevelInfo, "log what is at least of this `LEVEL`")
	return c
}

// runRelay is the relay's life.
func runRelay(ctx context.Context, cfg *relayconfig.Config, log *slog.Logger) error {
	if os.Geteuid() != 0 {
		return errors.New("relay: only root can read the credentials of nodes; the process that connects to outside is another, of " + cfg.User)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	links, err := net.Listen("tcp", cfg.Links)
	if err != nil {
		return err
	}
	defer links.Close()
	rights, err := lookUpCredential(cfg.User)
	if err != nil {
		return err
	}
	process, ended, err := startLinks(ctx, cfg, links.(*net.TCPListener), rights)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return err
	}
	answers := &relayAnswers{process: process, port: uint32(links.Addr().(*net.TCPAddr).Port), log: log}
	server := rpc.NewRelayServer(&munge.CredentialCheck{Node: rpc.RelayName, Coder: munge.Programs{Socket: cfg.MungeSocket}, Limits: relayLimits}, answers)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer server.Stop()
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
		log.Warn("sd_notify", "error", err)
	}
	log.Info("ready", "version", version, "listen", l.Addr(), "links", links.Addr(), "user", cfg.User)
	select {
	case <-ctx.Done():
		log.Info("stopping: connections end")
		return nil
	case err := <-ended:
		return fmt.Errorf("the process that connects to outside has ended: %w", err)
	case err := <-served:
		return err
	}
}

// lookUpCredential returns the rights of a user: its number, its group, and no other groups.
func lookUpCredential(name string) (*syscall.Credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("user: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	if uid == 0 {
		return nil, fmt.Errorf("user: %s is root: name another", name)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// startLinks starts the process that handles connections, and that ends with this process.
func startLinks(ctx context.Context, cfg *relayconfig.Config, links *net.TCPListener, rights *syscall.Credential) (*connections.Process, <-chan error, error) {
	f, err := links.File()
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	c := exec.CommandContext(ctx, self, "relay-links", "--level", cfg.Log.Level.String())
	c.Env, c.Dir, c.Stderr, c.ExtraFiles = []string{}, "/", os.Stderr, []*os.File{f}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: rights}
	in, err := c.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := c.Start(); err != nil {
		if errors.Is(err, fs.ErrPermission) {
			err = fmt.Errorf("%w: %s must be able to run %s", err, cfg.User, self)
		}
		return nil, nil, err
	}
	ended := make(chan error, 1)
	go func() {
		state, err := c.Process.Wait()
		if err == nil {
			err = errors.New(state.String())
		}
		ended <- err
	}()
	p, err := connections.NewProcess(in, out, connections.Settings{Allow: cfg.Allow, Deny: cfg.Deny, PerUser: cfg.PerUser, Keep: cfg.Keep, Clients: connections.Clients(cfg.Clients)})
	return p, ended, err
}

// relayLimits limits the requests of callers other than daemons: they are refused, but have to be read
// for that.
func relayLimits(c munge.Caller) munge.Limits {
	if c.UID == 0 {
		return munge.Limits{Bytes: 64 << 10}
	}
	return munge.Limits{Bytes: 4 << 10, Calls: 1}
}

// relayAnswers answers requests of nodes.
type relayAnswers struct {
	rpc.UnimplementedRelayServer
	process *connections.Process
	port    uint32
	log     *slog.Logger
}

// errRelayCaller is the error for a caller that is not a daemon.
var errRelayCaller = &rpc.Error{Kind: rpc.ErrDenied, Text: "the relay answers the nodes' proxyds only"}

func (a *relayAnswers) Admit(ctx context.Context, req *rpc.AdmitRequest) (*rpc.AdmitReply, error) {
	if c, ok := munge.CallerOf(ctx); !ok || c.UID != 0 {
		return nil, rpc.Status(errRelayCaller)
	}
	var ports []uint16
	for _, p := range req.GetListen() {
		if p == 0 || p > math.MaxUint16 {
			return nil, rpc.Status(rpc.Errorf(rpc.ErrRefused, "port %d", p))
		}
		ports = append(ports, uint16(p))
	}
	listening, err := a.process.Admit(connections.Admission{
		Job: req.GetJob(), UID: req.GetUid(), Run: int(req.GetRun()), Capsule: int(req.GetCapsule()), Ticket: req.GetTicket(), Connections: req.GetConnections(),
		Listen: ports,
	})
	if err != nil {
		a.log.Warn("not admitted", "job", req.GetJob(), "restarts", req.GetRun(), "error", err)
		return nil, rpc.Status(&rpc.Error{Kind: rpc.ErrRefused, Text: err.Error()})
	}
	reply := &rpc.AdmitReply{Port: a.port}
	for _, l := range listening {
		reply.Listening = append(reply.Listening, &rpc.ClientPort{Port: uint32(l.Port), Public: uint32(l.Public), Problem: l.Problem})
	}
	return reply, nil
}

func (a *relayAnswers) Forget(ctx context.Context, req *rpc.ForgetRequest) (*rpc.ForgetReply, error) {
	if c, ok := munge.CallerOf(ctx); !ok || c.UID != 0 {
		return nil, rpc.Status(errRelayCaller)
	}
	return &rpc.ForgetReply{}, rpc.Status(a.process.Forget(req.GetJob()))
}
