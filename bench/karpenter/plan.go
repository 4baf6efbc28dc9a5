package main

import (
	"sort"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
)

// A plan in the format of `outrigger plan -o json`.
type plan struct {
	Pods            int            `json:"pods"`
	PlacedNew       int            `json:"placedNew"`
	PlacedExisting  int            `json:"placedExisting"`
	Unplaced        []unplaced     `json:"unplaced"`
	CostPerHour     float64        `json:"costPerHour"`
	NodeCostPerHour float64        `json:"nodeCostPerHour"`
	PlanSeconds     float64        `json:"planSeconds"`
	Nodes           []plannedNode  `json:"nodes"`
	Existing        []existingNode `json:"existing"`
}

type unplaced struct {
	Pod    string `json:"pod"`
	Reason string `json:"reason"`
}

type plannedNode struct {
	NodePool      string        `json:"nodePool"`
	CapacityType  string        `json:"capacityType"`
	Zone          *string       `json:"zone"`
	InstanceTypes []string      `json:"instanceTypes"`
	PricePerHour  float64       `json:"pricePerHour"`
	Pods          []string      `json:"pods"`
	Requirements  []requirement `json:"requirements"`
}

type requirement struct {
	Key       string   `json:"key"`
	Operator  string   `json:"operator"`
	Values    []string `json:"values,omitempty"`
	MinValues *int     `json:"minValues,omitempty"`
}

type existingNode struct {
	Node string   `json:"node"`
	Pods []string `json:"pods"`
}

func newPlan(results scheduling.Results, given *answer) *plan {
	made := &plan{Pods: given.Pods, PlacedNew: given.PlacedNew, PlacedExisting: given.PlacedExisting,
		CostPerHour: given.CostPerHour, PlanSeconds: given.Seconds,
		Unplaced: []unplaced{}, Nodes: []plannedNode{}, Existing: []existingNode{}}
	placed := map[string]bool{}
	namesOf := func(pods []*corev1.Pod) []string {
		names := []string{}
		for _, pod := range pods {
			names = append(names, name(pod))
			placed[name(pod)] = true
		}
		return names
	}
	for _, claim := range results.NewNodeClaims {
		made.Nodes = append(made.Nodes, newPlannedNode(claim, namesOf(claim.Pods)))
	}
	for _, node := range results.ExistingNodes {
		if len(node.Pods) > 0 {
			made.Existing = append(made.Existing, existingNode{Node: node.Name(), Pods: namesOf(node.Pods)})
		}
	}
	reasons := map[string]string{}
	for pod, err := range results.PodErrors {
		reasons[name(pod)] = err.Error()
	}
	for _, pod := range given.pending {
		if placed[name(pod)] {
			continue
		}
		reason, known := reasons[name(pod)]
		if !known {
			reason = "ignored: its volumes or its affinity cannot be planned for"
		}
		made.Unplaced = append(made.Unplaced, unplaced{Pod: name(pod), Reason: reason})
	}
	sort.Slice(made.Unplaced, func(i, j int) bool { return made.Unplaced[i].Pod < made.Unplaced[j].Pod })
	return made
}

// newPlannedNode keeps to the capacity type of the cheapest offering, since a plan's node has one.
func newPlannedNode(claim *scheduling.NodeClaim, pods []string) plannedNode {
	offers := offersOf(claim)
	node := plannedNode{NodePool: claim.NodePoolName, CapacityType: offers[0].capacityType, PricePerHour: offers[0].price,
		Pods: pods, Requirements: []requirement{}, InstanceTypes: []string{}}
	for _, offer := range offers {
		if offer.capacityType == node.CapacityType {
			node.InstanceTypes = append(node.InstanceTypes, offer.name)
		}
	}
	if zone := claim.Requirements.Get(corev1.LabelTopologyZone); zone.Operator() == corev1.NodeSelectorOpIn && zone.Len() == 1 {
		only := zone.Any()
		node.Zone = &only
	}
	for _, one := range claim.Requirements.NodeSelectorRequirements() {
		node.Requirements = append(node.Requirements, requirement{one.Key, string(one.Operator), one.Values, one.MinValues})
	}
	sort.Slice(node.Requirements, func(i, j int) bool {
		a, b := node.Requirements[i], node.Requirements[j]
		return a.Key < b.Key || a.Key == b.Key && a.Operator < b.Operator
	})
	return node
}
