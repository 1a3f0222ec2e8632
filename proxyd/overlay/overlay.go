// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"
)

// What Config.Mode can be.
const (
	ModeAuto  = "auto"  // routes to neighbours, vxlan to the others
	ModeRoute = "route" // routes; a node that is no neighbour is an error
	ModeVXLAN = "vxlan" // vxlan to all, for networks that drop addresses they do not know
)

// Config is how a node takes part. Range, VNI and Port are the same on all nodes.
type Config struct {
	Range  netip.Prefix // the capsules' addresses; the zero Prefix is DefaultRange
	Mode   string       // "" is ModeAuto
	Device string       // has the address by which other nodes know this one; "" is the default route's, or the only one
	Node   netip.Addr   // that address, as Peer.Node has it elsewhere; the zero Addr is Device's first
	VNI    int          // 0 is DefaultVNI
	Port   int          // of vxlan, UDP; nothing else on the nodes may use it. 0 is DefaultPort
}

// What a Config's zero values stand for.
const (
	DefaultVNI  = 0x5347
	DefaultPort = 8477
)

// DefaultRange is one that no host on the internet has (RFC 6598).
var DefaultRange = netip.MustParsePrefix("100.64.0.0/10")

var (
	// ErrNotNeighbour says that a node cannot be reached without a gateway, and that
	// the mode is ModeRoute.
	ErrNotNeighbour = errors.New("not a neighbour, and mode is route")
	// ErrUnreachable says that this node has no route to another.
	ErrUnreachable = errors.New("no route")
)

// MissingError says what a node lacks.
type MissingError struct {
	What string // "nftables", "veth", "vxlan", "root"
	Hint string // what to do about it
	Err  error  // what the kernel said
}

func (e *MissingError) Error() string { return fmt.Sprintf("%s: %v (%s)", e.What, e.Err, e.Hint) }

// Unwrap returns what the kernel said.
func (e *MissingError) Unwrap() error { return e.Err }

// RangeError says that the capsules' addresses are in use on this node.
type RangeError struct {
	Range netip.Prefix
	By    string // "route 100.64.0.0/24 dev tun0"
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("range %s of the capsules overlaps %s (choose another one, the same on all nodes)", e.Range, e.By)
}

// Peer tells where a capsule is.
type Peer struct {
	Address netip.Addr // the capsule's
	Node    netip.Addr // of the node that it is on
}

// Overlay is this node's part in the network of capsules. It is safe for concurrent use.
// There is one for a node: two would undo each other's firewall.
type Overlay struct {
	cfg   Config
	ns    *os.File // the node's network namespace
	notes []string
	link  string // has the node's address
	mtu   int    // of capsules

	mu    sync.Mutex
	jobs  map[string]map[netip.Addr]netip.Addr // a job's capsules on other nodes, with these
	macs  map[string]netip.Addr                // nodes by their MACs
	guard []string                             // interfaces on which we have turned forwarding on
}

// Open probes this node and takes over what a former process left. It needs root. What
// is missing is in the error, each a *MissingError; a *RangeError says that the
// capsules' addresses are in use.
//
// Call then SetPeers for each job that lives, and Sweep.
func Open(cfg Config) (*Overlay, error) {
	ns, err := ownNetns()
	if err != nil {
		return nil, err
	}
	o, err := open(cfg, ns)
	if err != nil {
		ns.Close()
		return nil, fmt.Errorf("capsule network: %w", err)
	}
	return o, nil
}

// open is Open in a network namespace, which it keeps.
func open(cfg Config, ns *os.File) (*Overlay, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	o := &Overlay{cfg: cfg, ns: ns, jobs: map[string]map[netip.Addr]netip.Addr{}, macs: map[string]netip.Addr{}}
	return o, within(ns, o.probe)
}

func (c *Config) complete() error {
	if c.Range == (netip.Prefix{}) {
		c.Range = DefaultRange
	}
	if !c.Range.IsValid() || !c.Range.Addr().Is4() || c.Range != c.Range.Masked() || c.Range.Bits() < 8 || c.Range.Bits() > 28 {
		return fmt.Errorf("range %s: want an IPv4 prefix of 8 to 28 bits, %s say", c.Range, DefaultRange)
	}
	if c.Mode == "" {
		c.Mode = ModeAuto
	}
	if !slices.Contains([]string{ModeAuto, ModeRoute, ModeVXLAN}, c.Mode) {
		return fmt.Errorf("mode %q: want %s, %s or %s", c.Mode, ModeAuto, ModeRoute, ModeVXLAN)
	}
	if c.VNI == 0 {
		c.VNI = DefaultVNI
	}
	if c.VNI < 0 || c.VNI >= 1<<24 {
		return fmt.Errorf("vni %d: want 1 to %d", c.VNI, 1<<24-1)
	}
	if c.Port == 0 {
		c.Port = DefaultPort
	}
	if c.Port < 0 || c.Port >= 1<<16 {
		return fmt.Errorf("port %d: want 1 to 65535", c.Port)
	}
	return nil
}

// Node is the address by which other nodes know this one.
func (o *Overlay) Node() netip.Addr { return o.cfg.Node }

// MTU is that of capsules on this node.
func (o *Overlay) MTU() int { return o.mtu }

// Notes are what Open saw that may keep packets from or off capsules, for an
// administrator to judge: another table's filter, say.
func (o *Overlay) Notes() []string { return slices.Clone(o.notes) }

// Close releases the handle; what it did to the node stays.
func (o *Overlay) Close() error { return o.ns.Close() }
