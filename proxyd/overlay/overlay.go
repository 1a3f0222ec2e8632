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

// Values of Config.Mode.
const (
	ModeAuto  = "auto"  // routes to neighbours, vxlan to other nodes
	ModeRoute = "route" // routes only; a node that is no neighbour is an error
	ModeVXLAN = "vxlan" // vxlan to all nodes, for networks that drop unknown addresses
)

// ShortPathOff is the value of Config.ShortPath that switches it off.
const ShortPathOff = "off"

// Config says how a node takes part. Range, VNI and Port are the same on all nodes.
type Config struct {
	Range  netip.Prefix // addresses of capsules; the zero Prefix stands for DefaultRange
	Mode   string       // "" stands for ModeAuto
	Device string       // interface with the address by which other nodes know this node; "": the interface of the default route, or the only interface
	Node   netip.Addr   // that address, equal to Peer.Node on other nodes; the zero Addr stands for Device's first
	VNI    int          // 0 stands for DefaultVNI
	Port   int          // UDP port of vxlan, not used otherwise on the nodes; 0 stands for DefaultPort

	// ShortPath says whether packets between capsules pass by the node's forwarding and netfilter: "" and "auto" where
	// this changes nothing else, or ShortPathOff.
	ShortPath string
}

// Defaults of Config.
const (
	DefaultVNI  = 0x5347
	DefaultPort = 8477
)

// DefaultRange is not used by hosts on the internet (RFC 6598).
var DefaultRange = netip.MustParsePrefix("100.64.0.0/10")

var (
	// ErrNotNeighbour means that a node is behind a gateway and the mode is ModeRoute.
	ErrNotNeighbour = errors.New("not a neighbour, and mode is route")
	// ErrUnreachable means that this node has no route to another node.
	ErrUnreachable = errors.New("no route")
)

// MissingError names a feature that the node lacks.
type MissingError struct {
	What string // "nftables", "veth", "vxlan", "root"
	Hint string // the remedy, for an administrator
	Err  error  // the kernel's error
}

func (e *MissingError) Error() string { return fmt.Sprintf("%s: %v (%s)", e.What, e.Err, e.Hint) }

// Unwrap returns the kernel's error.
func (e *MissingError) Unwrap() error { return e.Err }

// RangeError means that addresses of the capsules' range are in use on this node.
type RangeError struct {
	Range netip.Prefix
	By    string // "route 100.64.0.0/24 dev tun0"
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("range %s of the capsules overlaps %s (choose another one, the same on all nodes)", e.Range, e.By)
}

// Peer says on which node a capsule is.
type Peer struct {
	Address netip.Addr // address of the capsule
	Node    netip.Addr // address of its node
}

// Overlay is this node's part of the network of capsules. An Overlay is safe for concurrent use. A
// node must have only one Overlay: two would overwrite each other's firewall.
type Overlay struct {
	cfg   Config
	ns    *os.File // the node's network namespace
	notes []string
	link  string // interface with the node's address
	mtu   int    // of capsules

	mu    sync.Mutex
	jobs  map[string]map[netip.Addr]netip.Addr // for each job, its capsules on other nodes, with these nodes
	macs  map[string]netip.Addr                // nodes by MAC
	guard []string                             // interfaces on which this package has enabled forwarding

	filters map[int]bool // interfaces with a program of the short path; nil: not known yet
	noShort string       // why the short path is not used
}

// Open probes this node and takes over the state of an earlier process. Open needs root. The error
// contains a *MissingError for each missing feature; a *RangeError means that the capsules'
// addresses are in use.
//
// Afterwards call SetPeers for each live job, then Sweep.
func Open(cfg Config) (*Overlay, error) {
	ns, err := ownNetns()
	if err != nil {
		return nil, err
	}
	o, err := openIn(cfg, ns)
	if err != nil {
		ns.Close()
		return nil, fmt.Errorf("capsule network: %w", err)
	}
	return o, nil
}

// openIn is Open in a given network namespace, which the Overlay keeps.
func openIn(cfg Config, ns *os.File) (*Overlay, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	o := &Overlay{cfg: cfg, ns: ns, jobs: map[string]map[netip.Addr]netip.Addr{}, macs: map[string]netip.Addr{}}
	return o, withinNamespace(ns, o.probeNode)
}

func (c *Config) setDefaults() error {
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
	if !slices.Contains([]string{"", "auto", ShortPathOff}, c.ShortPath) {
		return fmt.Errorf("short path %q: want auto or %s", c.ShortPath, ShortPathOff)
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

// Node returns the address by which other nodes know this node.
func (o *Overlay) Node() netip.Addr { return o.cfg.Node }

// Range returns the addresses of capsules.
func (o *Overlay) Range() netip.Prefix { return o.cfg.Range }

// MTU returns the MTU of capsules on this node.
func (o *Overlay) MTU() int { return o.mtu }

// Notes returns findings of Open that may block packets of capsules, for an administrator to
// judge: for example the filter of another table.
func (o *Overlay) Notes() []string { return slices.Clone(o.notes) }

// Close releases the handle. The node's network stays as it is.
func (o *Overlay) Close() error { return o.ns.Close() }
