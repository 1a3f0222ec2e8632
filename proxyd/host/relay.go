// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"strings"
)

// checkRelay checks the features that --singularity-outside=relay needs, at a site with a relay.
func checkRelay(ctx context.Context, n *node) Finding {
	f := Finding{Name: "relay", Needs: "of a site with a relay: tproxy of nftables and packet sockets, and both ports of the relay's host"}
	relay := n.cfg.Relay
	if relay == "" {
		return f.withOK("the site has none")
	}
	if n.known.CheckDivert != nil {
		if err := n.known.CheckDivert(); err != nil {
			return f.withProblem(Fail, err.Error(), "boot a kernel with CONFIG_NFT_TPROXY, CONFIG_IP_MULTIPLE_TABLES and CONFIG_PACKET, or load nft_tproxy and af_packet at boot: until then jobs with --singularity-outside=relay do not start here")
		}
	}
	if n.known.AskRelay == nil {
		return f.withOK(relay + ", not asked")
	}
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	if err := n.known.AskRelay(ctx); err != nil {
		what := err.Error()
		if !strings.Contains(what, relay) {
			what = relay + ": " + what
		}
		return f.withProblem(Warn, what, "on its host: systemctl status proxyd-relay; munge's key and the clock are to be those of the nodes, and no firewall in between. Until then jobs with --singularity-outside=relay wait in connect")
	}
	return f.withOK(relay + " takes connections")
}
