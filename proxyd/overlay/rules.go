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

func joinRules(parts ...rule) rule {
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
	reg9 = unix.NFT_REG32_01 // the second 4 bytes of register 1, with the number that `nft --debug=netlink` shows
)

const (
	source      = 12 // offsets in an IPv4 header
	destination = 16
)

func loadHeader(offset uint32) expr.Any {
	return &expr.Payload{DestRegister: reg1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4}
}

func compareData(op expr.CmpOp, data []byte) expr.Any {
	return &expr.Cmp{Op: op, Register: reg1, Data: data}
}

func lookUpSet(set string, not bool) expr.Any {
	return &expr.Lookup{SourceRegister: reg1, SetName: set, Invert: not}
}

// matchAddress: ip saddr PREFIX, ip daddr != PREFIX
func matchAddress(offset uint32, p netip.Prefix, op expr.CmpOp) rule {
	mask := netip.AddrFrom4([4]byte(maskOf(p.Bits())))
	return rule{
		loadHeader(offset),
		&expr.Bitwise{SourceRegister: reg1, DestRegister: reg1, Len: 4, Mask: mask.AsSlice(), Xor: make([]byte, 4)},
		compareData(op, p.Masked().Addr().AsSlice()),
	}
}

func maskOf(bits int) []byte {
	return binaryutil.BigEndian.PutUint32(^uint32(0) << (32 - bits)) // bits > 0: Open checks that
}

// matchRange: ip saddr RANGE ip daddr RANGE
func matchRange(p netip.Prefix) rule {
	return joinRules(matchAddress(source, p, expr.CmpOpEq), matchAddress(destination, p, expr.CmpOpEq))
}

// addressIn: ip saddr @SET
func addressIn(offset uint32, set string, not bool) rule {
	return rule{loadHeader(offset), lookUpSet(set, not)}
}

// fromCapsule: iifgroup GROUP; toCapsule: oifgroup GROUP
func fromCapsule(op expr.CmpOp) rule {
	return matchMeta(expr.MetaKeyIIFGROUP, op, nativeBytes(linkGroup))
}
func toCapsule(op expr.CmpOp) rule {
	return matchMeta(expr.MetaKeyOIFGROUP, op, nativeBytes(linkGroup))
}

// fromLink: iifname NAME; toLink: oifname NAME
func fromLink(name string, op expr.CmpOp) rule {
	return matchMeta(expr.MetaKeyIIFNAME, op, paddedName(name))
}
func toLink(name string, op expr.CmpOp) rule {
	return matchMeta(expr.MetaKeyOIFNAME, op, paddedName(name))
}

func matchMeta(key expr.MetaKey, op expr.CmpOp, data []byte) rule {
	return rule{&expr.Meta{Key: key, Register: reg1}, compareData(op, data)}
}

// linkIn: iifname @SET
func linkIn(set string) rule {
	return rule{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: reg1}, lookUpSet(set, false)}
}

// matchForeignLink: iifname . ip saddr != @SET
func matchForeignLink(set string) rule {
	saddr := &expr.Payload{DestRegister: reg2, Base: expr.PayloadBaseNetworkHeader, Offset: source, Len: 4}
	return rule{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: reg1}, saddr, lookUpSet(set, true)}
}

// matchEthernet: meta iiftype ether. Without this rule, ether saddr would read other data on other kinds
// of link, for example InfiniBand.
func matchEthernet() rule {
	return matchMeta(expr.MetaKeyIIFTYPE, expr.CmpOpEq, binaryutil.NativeEndian.PutUint16(unix.ARPHRD_ETHER))
}

// loadSender loads ether saddr.
func loadSender(register uint32) expr.Any {
	return &expr.Payload{DestRegister: register, Base: expr.PayloadBaseLLHeader, Offset: 6, Len: 6}
}

// macIn: ether saddr @SET
func macIn(set string) rule { return rule{loadSender(reg1), lookUpSet(set, false)} }

// matchForeignMAC: ip saddr . ether saddr != @SET
func matchForeignMAC(set string) rule {
	return rule{loadHeader(source), loadSender(reg9), lookUpSet(set, true)}
}

// udpTo: udp dport PORT
func udpTo(port int) rule {
	return joinRules(matchMeta(expr.MetaKeyL4PROTO, expr.CmpOpEq, []byte{unix.IPPROTO_UDP}), rule{
		&expr.Payload{DestRegister: reg1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		compareData(expr.CmpOpEq, binaryutil.BigEndian.PutUint16(uint16(port))),
	})
}

// matchMark: meta mark MARK
func matchMark(mark uint32) rule { return matchMeta(expr.MetaKeyMARK, expr.CmpOpEq, nativeBytes(mark)) }

// jumpBySource: ip saddr vmap @MAP
func jumpBySource(set string) rule {
	return rule{loadHeader(source), &expr.Lookup{SourceRegister: reg1, SetName: set, DestRegister: unix.NFT_REG_VERDICT, IsDestRegSet: true}}
}

func acceptPacket() rule     { return rule{&expr.Verdict{Kind: expr.VerdictAccept}} }
func dropPacket() rule       { return rule{&expr.Verdict{Kind: expr.VerdictDrop}} }
func dontTrack() rule        { return rule{&expr.Notrack{}} }
func masqueradeSource() rule { return rule{&expr.Masq{}} }

// rejectPacket: reject with icmp admin-prohibited
func rejectPacket() rule {
	const adminProhibited = 13
	return rule{&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: adminProhibited}}
}

func nativeBytes(v uint32) []byte { return binaryutil.NativeEndian.PutUint32(v) }

func paddedName(name string) []byte {
	b := make([]byte, unix.IFNAMSIZ)
	copy(b, name)
	return b
}

// setElement makes an element of a set: the concatenation of parts, which are padded to 4 bytes each.
func setElement(parts ...[]byte) nftables.SetElement {
	var key []byte
	for _, p := range parts {
		key = append(key, p...)
		for len(key)%4 != 0 {
			key = append(key, 0)
		}
	}
	return nftables.SetElement{Key: key}
}
