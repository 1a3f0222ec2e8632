// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The keeper's network namespace is the switch of the cluster: a bridge, and for each host an end
// of a veth pair, named for the host. The other end is the host's eth0 and goes with the host.
const bridgeName = "br0"

func makeSwitch() error {
	bridge := &netlink.Bridge{LinkAttrs: netlink.NewLinkAttrs()}
	bridge.Name = bridgeName
	if err := netlink.LinkAdd(bridge); err != nil {
		return fmt.Errorf("make a bridge (is the kernel's bridge module there?): %w", err)
	}
	return netlink.LinkSetUp(bridge)
}

// plugCable connects the host of the first process pid.
func plugCable(hostName string, pid int) error {
	bridge, err := netlink.LinkByName(bridgeName)
	if err != nil {
		return err
	}
	pair := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "eth0", PeerNamespace: netlink.NsPid(pid)}
	pair.Name = portName(hostName)
	pair.MasterIndex = bridge.Attrs().Index
	if err := netlink.LinkAdd(pair); err != nil {
		return fmt.Errorf("plug in %s: make a veth pair: %w", hostName, err)
	}
	return setPort(hostName, true)
}

// setPort switches a host's network on or off at the switch: the host keeps its interface and its
// address, and receives no packets.
func setPort(hostName string, on bool) error {
	port, err := netlink.LinkByName(portName(hostName))
	if err != nil {
		return fmt.Errorf("host %s: %w", hostName, err)
	}
	if on {
		return netlink.LinkSetUp(port)
	}
	return netlink.LinkSetDown(port)
}

// unplugCable removes a host's port if it still exists. The kernel removes the port with the host's
// namespace too, but at some later time, and the name is needed again.
func unplugCable(hostName string) error {
	port, err := netlink.LinkByName(portName(hostName))
	var gone netlink.LinkNotFoundError
	if errors.As(err, &gone) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("host %s: %w", hostName, err)
	}
	if err := netlink.LinkDel(port); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("host %s: %w", hostName, err)
	}
	return nil
}

func portName(hostName string) string { return "to-" + hostName }
