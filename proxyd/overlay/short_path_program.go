// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"errors"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

// shortPrograms are the programs of a short path, with their tables.
type shortPrograms struct {
	ways, macs *ebpf.Map
	ofCapsules *ebpf.Program // for packets that a capsule sends
	ofNodes    *ebpf.Program // for packets of other nodes
}

// close closes the handles. The kernel keeps what a filter uses.
func (p *shortPrograms) close() {
	_ = errors.Join(p.ways.Close(), p.macs.Close(), p.ofCapsules.Close(), p.ofNodes.Close())
}

func loadShortPath(s *shortPath) (p *shortPrograms, err error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, err
	}
	p = &shortPrograms{}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	ways, macs := map[string][]byte{}, map[string][]byte{}
	for w, exit := range s.ways {
		ways[string(w.encodeKey())] = exit.encodeValue()
	}
	for mac, node := range s.macs {
		macs[mac+"\x00\x00"] = node.AsSlice()
	}
	if p.ways, err = newTableOf("sing_ways", shortWaySize, shortExitSize, ways); err != nil {
		return nil, err
	}
	if p.macs, err = newTableOf("sing_macs", shortMACSize, 4, macs); err != nil {
		return nil, err
	}
	if p.ofCapsules, err = newFilterProgram("sing_capsule", p.capsuleProgram()); err != nil {
		return nil, err
	}
	p.ofNodes, err = newFilterProgram("sing_node", p.nodeProgram())
	return p, err
}

// newTableOf makes a table that BPF programs read, with its entries.
func newTableOf(name string, key, value uint32, entries map[string][]byte) (*ebpf.Map, error) {
	m, err := ebpf.NewMap(&ebpf.MapSpec{Name: name, Type: ebpf.Hash, KeySize: key, ValueSize: value, MaxEntries: uint32(max(1, len(entries)))})
	if err != nil {
		return nil, err
	}
	for k, v := range entries {
		if err := m.Put([]byte(k), v); err != nil {
			m.Close()
			return nil, err
		}
	}
	return m, nil
}

func newFilterProgram(name string, code asm.Instructions) (*ebpf.Program, error) {
	return ebpf.NewProgram(&ebpf.ProgramSpec{Name: name, Type: ebpf.SchedCLS, License: "GPL", Instructions: code})
}

// Offsets in struct __sk_buff of linux/bpf.h, which programs see in the place of the kernel's own.
const (
	skbPacketType = 4
	skbProtocol   = 16
	skbVLAN       = 20
	skbIfindex    = 40
)

// Offsets of the programs' variables from the end of the stack.
const (
	stackHeader = -24 // IPv4, 20 bytes
	stackSender = -32 // the sender's MAC and two zeros
	stackWay    = -48 // a key of the ways
)

// labelPass leads to the end at which a packet is left to the kernel, labelKnown to the exit of a packet.
const (
	labelPass   = "pass"
	labelKnown  = "known"
	labelInward = "inward"
)

// capsuleProgram is the program for packets that a capsule sends: the way is looked up by the interface, too, so that no
// capsule sends from another one's address.
func (p *shortPrograms) capsuleProgram() asm.Instructions {
	code := append(readHeader(), asm.LoadMem(asm.R2, asm.R6, skbIfindex, asm.Word))
	code = append(code, lookUpWay(p.ways)...)
	return append(code, leaveByExit()...)
}

// nodeProgram is the program for packets of other nodes. A packet with the MAC of another node than the sender's
// home is left to the kernel, and the firewall drops it (stray_packets.go).
func (p *shortPrograms) nodeProgram() asm.Instructions {
	code := append(readHeader(), asm.Mov.Imm(asm.R2, 0))
	code = append(code, lookUpWay(p.ways)...)
	code = append(code,
		asm.StoreImm(asm.RFP, stackSender, 0, asm.Word),
		asm.StoreImm(asm.RFP, stackSender+4, 0, asm.Word),
	)
	code = append(code, loadBytes(6, stackSender, 6)...)
	code = append(code, lookUpMap(p.macs, stackSender)...)
	code = append(code,
		asm.JEq.Imm(asm.R0, 0, labelKnown), // a MAC that is not known passes, as in the firewall
		asm.LoadMem(asm.R2, asm.R0, 0, asm.Word),
		asm.LoadMem(asm.R3, asm.R7, 8, asm.Word), // home
		asm.JNE.Reg(asm.R2, asm.R3, labelPass),
	)
	return append(code, leaveByExit()...)
}

// readHeader copies the header of IPv4 to the stack. R6 is the packet from then on. A packet that is not for this node's
// MAC, or has a VLAN's tag or options, passes.
func readHeader() asm.Instructions {
	const (
		toUs  = 0    // PACKET_HOST
		plain = 0x45 // version 4, a header of five words
	)
	code := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R2, asm.R6, skbPacketType, asm.Word),
		asm.JNE.Imm(asm.R2, toUs, labelPass),
		asm.LoadMem(asm.R2, asm.R6, skbVLAN, asm.Word),
		asm.JNE.Imm(asm.R2, 0, labelPass),
		asm.LoadMem(asm.R2, asm.R6, skbProtocol, asm.Word),
		asm.JNE.Imm(asm.R2, int32(networkOrder(unix.ETH_P_IP)), labelPass),
	}
	code = append(code, loadBytes(14, stackHeader, 20)...)
	return append(code,
		asm.LoadMem(asm.R2, asm.RFP, stackHeader, asm.Byte),
		asm.JNE.Imm(asm.R2, plain, labelPass),
	)
}

// lookUpWay looks up the way of a packet; R2 has its interface. R7 is the exit from then on.
func lookUpWay(ways *ebpf.Map) asm.Instructions {
	code := asm.Instructions{
		asm.StoreMem(asm.RFP, stackWay, asm.R2, asm.Word),
		asm.LoadMem(asm.R2, asm.RFP, stackHeader+source, asm.Word),
		asm.StoreMem(asm.RFP, stackWay+4, asm.R2, asm.Word),
		asm.LoadMem(asm.R2, asm.RFP, stackHeader+destination, asm.Word),
		asm.StoreMem(asm.RFP, stackWay+8, asm.R2, asm.Word),
	}
	code = append(code, lookUpMap(ways, stackWay)...)
	return append(code,
		asm.JEq.Imm(asm.R0, 0, labelPass),
		asm.Mov.Reg(asm.R7, asm.R0),
	)
}

// leaveByExit hands a packet over by the exit in R7. bpf_redirect_neigh looks up the MAC of the next node as any
// packet's; bpf_redirect_peer puts the packet at the other end of a veth.
func leaveByExit() asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R1, asm.R7, 4, asm.Word).WithSymbol(labelKnown), // link
		asm.LoadMem(asm.R2, asm.R7, 0, asm.Word),                        // inward
		asm.JNE.Imm(asm.R2, 0, labelInward),
		asm.Mov.Imm(asm.R3, 0),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnRedirectNeigh.Call(),
		asm.Return(),
		asm.Mov.Imm(asm.R2, 0).WithSymbol(labelInward),
		asm.FnRedirectPeer.Call(),
		asm.Return(),
		asm.Mov.Imm(asm.R0, -1).WithSymbol(labelPass), // TC_ACT_UNSPEC: the next filter, and then the kernel
		asm.Return(),
	}
}

// loadBytes copies n bytes of the packet to the stack. A packet that is shorter passes.
func loadBytes(offset, to, n int32) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.Mov.Imm(asm.R2, offset),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, to),
		asm.Mov.Imm(asm.R4, n),
		asm.FnSkbLoadBytes.Call(),
		asm.JNE.Imm(asm.R0, 0, labelPass),
	}
}

// lookUpMap looks up the key at an offset of the stack. R0 points to the value, or is 0.
func lookUpMap(m *ebpf.Map, key int32) asm.Instructions {
	return asm.Instructions{
		asm.LoadMapPtr(asm.R1, m.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, key),
		asm.FnMapLookupElem.Call(),
	}
}

// networkOrder returns the number that a load in the node's order gives for v in the network's.
func networkOrder(v uint16) uint16 { return v<<8 | v>>8 }
