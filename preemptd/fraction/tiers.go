// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package fraction

import "github.com/singularity-slurm/singularity-slurm/policies/sdk"

// Promised is the GPU fraction of each tier, unless a site says otherwise.
var Promised = [sdk.Tiers]float64{sdk.Basic: 0, sdk.Standard: 0.70, sdk.Premium: 0.95}

// TierOf is the tier of a QOS: the site's tier for it, or else the tier of the same name, or else basic, which has no
// promise.
func TierOf(qos string, site map[string]sdk.Tier) sdk.Tier {
	if tier, ok := site[qos]; ok {
		return tier
	}
	tier, err := sdk.ParseTier(qos)
	if err != nil {
		return sdk.Basic
	}
	return tier
}
