package main

import (
	"math"
	"os"
	"sort"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/utils/pod"
)

// How many of a node's cheapest types count towards its flexible cost.
const flexibleTypes = 15

// What came out, in figures.
type answer struct {
	Error          string `json:"error,omitempty"`
	Pods           int    `json:"pods"`
	PlacedNew      int    `json:"placedNew"`
	PlacedExisting int    `json:"placedExisting"`
	Unplaced       int    `json:"unplaced"`
	Nodes          int    `json:"nodes"`
	// Each node at its cheapest offering, dollars per hour.
	CostPerHour float64 `json:"costPerHour"`
	// Each node at the mean of its cheapest types, dollars per hour.
	FlexibleCostPerHour float64 `json:"flexibleCostPerHour"`
	// Solve alone.
	Seconds float64 `json:"seconds"`
	// The most that this process has held so far.
	PeakMemoryBytes int64 `json:"peakMemoryBytes"`
	// Whether Solve came to its end before the limit.
	Complete bool  `json:"complete"`
	Plan     *plan `json:"plan,omitempty"`

	pending []*corev1.Pod
}

func newAnswer(objects *store, results scheduling.Results, seconds float64, complete bool) *answer {
	given := &answer{Seconds: seconds, Complete: complete, PeakMemoryBytes: peakMemory(), Nodes: len(results.NewNodeClaims)}
	for _, waiting := range objects.byNode[""] {
		if pod.FailedToSchedule(waiting) {
			given.pending = append(given.pending, waiting)
		}
	}
	given.Pods = len(given.pending)
	for _, claim := range results.NewNodeClaims {
		given.PlacedNew += len(claim.Pods)
		offers := offersOf(claim)
		given.CostPerHour += offers[0].price
		cheapest := offers[:min(flexibleTypes, len(offers))]
		for _, offer := range cheapest {
			given.FlexibleCostPerHour += offer.price / float64(len(cheapest))
		}
	}
	for _, node := range results.ExistingNodes {
		given.PlacedExisting += len(node.Pods)
	}
	given.Unplaced = given.Pods - given.PlacedNew - given.PlacedExisting
	return given
}

// An offer is a type that a node may become, at the cheapest of its offerings that the node allows.
type offer struct {
	name, capacityType string
	price              float64
}

// offersOf returns a node's types, cheapest first.
func offersOf(claim *scheduling.NodeClaim) []offer {
	offers := []offer{}
	for _, kind := range claim.InstanceTypeOptions {
		best := offer{name: kind.Name, price: math.Inf(1)}
		for _, sold := range kind.Offerings.Available().Compatible(claim.Requirements) {
			if sold.Price < best.price {
				best.price, best.capacityType = sold.Price, sold.Requirements.Get(karpenter.CapacityTypeLabelKey).Any()
			}
		}
		if best.capacityType != "" {
			offers = append(offers, best)
		}
	}
	sort.SliceStable(offers, func(i, j int) bool { return offers[i].price < offers[j].price })
	return offers
}

// peakMemory is Linux's high-water mark of this process, in bytes; 0 where there is none.
func peakMemory() int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for _, line := range strings.Split(string(text), "\n") {
		if rest, is := strings.CutPrefix(line, "VmHWM:"); is {
			kibibytes, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
			return kibibytes << 10
		}
	}
	return 0
}
