// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// rule is the right side of an nftables rule, composed of the parts below. The comment of each
// part is its text in nft.
type rule []expr.Any

func join(parts ...rule) rule {
	var r rule
	for _, p := range parts {
		r = append(r, p...)
	}
	return r
}

// Values are compared in registers; the first part of a concatenation is in register 1.
const (
	reg1 = 1 // 16 bytes
	reg2 = 2
	reg9 = unix.NFT_REG32_01 // the second 4 bytes of register 1, as `nft --debug=netlink` numbers it
)

const (
	source      = 12 // offsets in an IPv4 header
	destination = 16
)

func load(offset uint32) expr.Any {
	return &expr.Payload{DestRegister: reg1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4}
}

func compare(op expr.CmpOp, data []byte) expr.Any {
	return &expr.Cmp{Op: op, Register: reg1, Data: data}
}

func lookup(set string, not bool) expr.Any {
	return &expr.Lookup{SourceRegister: reg1, SetName: set, Invert: not}
}

// address: ip saddr PREFIX, ip daddr != PREFIX
func address(offset uint32, p netip.Prefix, op expr.CmpOp) rule {
	mask := netip.AddrFrom4([4]byte(maskOf(p.Bits())))
	return rule{
		load(offset),
		&expr.Bitwise{SourceRegister: reg1, DestRegister: reg1, Len: 4, Mask: mask.AsSlice(), Xor: make([]byte, 4)},
		compare(op, p.Masked().Addr().AsSlice()),
	}
}

func maskOf(bits int) []byte {
	return binaryutil.BigEndian.PutUint32(^uint32(0) << (32 - bits)) // bits > 0: Open checks that
}

// between: ip saddr RANGE ip daddr RANGE
func between(p netip.Prefix) rule {
	return join(address(source, p, expr.CmpOpEq), address(destination, p, expr.CmpOpEq))
}

// addressIn: ip saddr @SET
func addressIn(offset uint32, set string, not bool) rule {
	return rule{load(offset), lookup(set, not)}
}

// fromCapsule: iifgroup GROUP; toCapsule: oifgroup GROUP
func fromCapsule(op expr.CmpOp) rule { return meta(expr.MetaKeyIIFGROUP, op, native(linkGroup)) }
func toCapsule(op expr.CmpOp) rule   { return meta(expr.MetaKeyOIFGROUP, op, native(linkGroup)) }

// fromLink: iifname NAME; toLink: oifname NAME
func fromLink(name string, op expr.CmpOp) rule { return meta(expr.MetaKeyIIFNAME, op, ifname(name)) }
func toLink(name string, op expr.CmpOp) rule   { return meta(expr.MetaKeyOIFNAME, op, ifname(name)) }

func meta(key expr.MetaKey, op expr.CmpOp, data []byte) rule {
	return rule{&expr.Meta{Key: key, Register: reg1}, compare(op, data)}
}

// linkIn: iifname @SET
func linkIn(set string) rule {
	return rule{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: reg1}, lookup(set, false)}
}

// notItsLink: iifname . ip saddr != @SET
func notItsLink(set string) rule {
	saddr := &expr.Payload{DestRegister: reg2, Base: expr.PayloadBaseNetworkHeader, Offset: source, Len: 4}
	return rule{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: reg1}, saddr, lookup(set, true)}
}

// ethernet: meta iiftype ether. Without it, ether saddr would read other data on other kinds of
// link, for example InfiniBand.
func ethernet() rule {
	return meta(expr.MetaKeyIIFTYPE, expr.CmpOpEq, binaryutil.NativeEndian.PutUint16(unix.ARPHRD_ETHER))
}

// sender loads ether saddr.
func sender(register uint32) expr.Any {
	return &expr.Payload{DestRegister: register, Base: expr.PayloadBaseLLHeader, Offset: 6, Len: 6}
}

// macIn: ether saddr @SET
func macIn(set string) rule { return rule{sender(reg1), lookup(set, false)} }

// notItsHome: ip saddr . ether saddr != @SET
func notItsHome(set string) rule { return rule{load(source), sender(reg9), lookup(set, true)} }

// udpTo: udp dport PORT
func udpTo(port int) rule {
	return join(meta(expr.MetaKeyL4PROTO, expr.CmpOpEq, []byte{unix.IPPROTO_UDP}), rule{
		&expr.Payload{DestRegister: reg1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		compare(expr.CmpOpEq, binaryutil.BigEndian.PutUint16(uint16(port))),
	})
}

// marked: meta mark MARK
func marked(mark uint32) rule { return meta(expr.MetaKeyMARK, expr.CmpOpEq, native(mark)) }

// jumpBySource: ip saddr vmap @MAP
func jumpBySource(set string) rule {
	return rule{load(source), &expr.Lookup{SourceRegister: reg1, SetName: set, DestRegister: unix.NFT_REG_VERDICT, IsDestRegSet: true}}
}

func accept() rule     { return rule{&expr.Verdict{Kind: expr.VerdictAccept}} }
func drop() rule       { return rule{&expr.Verdict{Kind: expr.VerdictDrop}} }
func notrack() rule    { return rule{&expr.Notrack{}} }
func masquerade() rule { return rule{&expr.Masq{}} }

// reject: reject with icmp admin-prohibited
func reject() rule {
	const adminProhibited = 13
	return rule{&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: adminProhibited}}
}

func native(v uint32) []byte { return binaryutil.NativeEndian.PutUint32(v) }

func ifname(name string) []byte {
	b := make([]byte, unix.IFNAMSIZ)
	copy(b, name)
	return b
}

// elements makes a set's elements, each the concatenation of parts that are padded to 4
// bytes each.
func element(parts ...[]byte) nftables.SetElement {
	var key []byte
	for _, p := range parts {
		key = append(key, p...)
		for len(key)%4 != 0 {
			key = append(key, 0)
		}
	}
	return nftables.SetElement{Key: key}
}
