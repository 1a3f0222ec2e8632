// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strings"

	"github.com/vishvananda/netlink"
)

const (
	// linkGroup marks our interfaces from their creation on ("sing").
	linkGroup = 0x73696e67
	// routeProtocol marks our routes; /etc/iproute2/rt_protos has no name for 83.
	routeProtocol = 83
	// vxlanName differs from all capsules' interfaces, which have a dot in the name.
	vxlanName = "singvx"
	probeName = "singprobe"

	linkPrefix  = "sing"
	aliasPrefix = "singularity "
	maxLink     = 15 // IFNAMSIZ less the NUL
)

// gatewayAddress is the default gateway of every capsule, on every node.
var gatewayAddress = netip.AddrFrom4([4]byte{169, 254, 1, 1})

var validJob = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// checkJob refuses a text that cannot be a job in names of sets and files.
func checkJob(job string) error {
	if !validJob.MatchString(job) {
		return fmt.Errorf("job %q: want letters, digits, '.', '_' and '-', up to 64", job)
	}
	return nil
}

// jobOf returns the job of a capsule's name: "812" of "812.0".
func jobOf(name string) (string, error) {
	dot := strings.LastIndexByte(name, '.')
	if dot < 1 || dot == len(name)-1 || !validJob.MatchString(name) {
		return "", fmt.Errorf("capsule %q: want a name like 812.0, the job's and the capsule's number", name)
	}
	return name[:dot], nil
}

// linkName returns the name of the node's end of a capsule's veth: the capsule's name if short
// enough, else a hash with '~', which no capsule's name contains.
func linkName(name string) string {
	if len(linkPrefix)+len(name) <= maxLink {
		return linkPrefix + name
	}
	sum := sha256.Sum256([]byte(name))
	hash := strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))
	return (linkPrefix + "~" + hash)[:maxLink]
}

// linkAlias returns the alias of an interface, which names its capsule.
func linkAlias(name string, addr netip.Addr) string {
	return aliasPrefix + name + " " + addr.String()
}

func parseAlias(s string) (name string, addr netip.Addr, ok bool) {
	s, ok = strings.CutPrefix(s, aliasPrefix)
	if !ok {
		return "", addr, false
	}
	name, text, _ := strings.Cut(s, " ")
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return "", addr, false
	}
	_, err = jobOf(name)
	return name, addr, err == nil
}

// capsuleMAC computes the MAC of a capsule from its address. All MACs here are computed, so no query is
// needed.
func capsuleMAC(a netip.Addr) net.HardwareAddr { return macOf(0x53, a) }
func nodeMAC(a netip.Addr) net.HardwareAddr    { return macOf(0x56, a) }
func gatewayMAC() net.HardwareAddr             { return macOf(0x47, gatewayAddress) }

func macOf(kind byte, a netip.Addr) net.HardwareAddr {
	b := a.As4()
	return net.HardwareAddr{0x02, kind, b[0], b[1], b[2], b[3]} // 02: locally administered
}

// nodeOfMAC is the inverse of nodeMAC.
func nodeOfMAC(m net.HardwareAddr) (netip.Addr, bool) {
	if len(m) != 6 || m[0] != 0x02 || m[1] != 0x56 {
		return netip.Addr{}, false
	}
	return netip.AddrFrom4([4]byte(m[2:])), true
}

func ipOf(a netip.Addr) net.IP { return a.AsSlice() }

func hostNet(a netip.Addr) *net.IPNet {
	return &net.IPNet{IP: ipOf(a), Mask: net.CIDRMask(32, 32)}
}

func addrOf(ip net.IP) (netip.Addr, bool) {
	a, ok := netip.AddrFromSlice(ip.To4())
	return a, ok
}

// local is a capsule with an interface on this node.
type local struct {
	name string
	addr netip.Addr
	link netlink.Link
}

// listLinks returns the capsules of the thread's namespace, and our interfaces that were never
// completed.
func listLinks() (locals []local, unfinished []netlink.Link, err error) {
	all, err := listRetrying(netlink.LinkList)
	if err != nil {
		return nil, nil, fmt.Errorf("list interfaces: %w", err)
	}
	for _, l := range all {
		if l.Type() != "veth" || l.Attrs().Group != linkGroup {
			continue
		}
		name, addr, ok := parseAlias(l.Attrs().Alias)
		if !ok {
			unfinished = append(unfinished, l)
			continue
		}
		locals = append(locals, local{name, addr, l})
	}
	return locals, unfinished, nil
}
