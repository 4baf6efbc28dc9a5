package main

import (
	"context"

	"github.com/awslabs/operatorpkg/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
)

// A provider sells a catalogue to every pool and launches nothing.
type provider struct {
	cloudprovider.CloudProvider
	kinds   []*cloudprovider.InstanceType
	classes []status.Object
}

func (p *provider) Name() string { return "catalogue" }

func (p *provider) GetInstanceTypes(context.Context, *karpenter.NodePool) ([]*cloudprovider.InstanceType, error) {
	return p.kinds, nil
}

func (p *provider) GetSupportedNodeClasses() []status.Object { return p.classes }

// A nodeClass stands for every class of one kind; the scheduler asks for no more than the kind.
type nodeClass struct {
	*unstructured.Unstructured
}

func (nodeClass) GetConditions() []status.Condition { return nil }

func (nodeClass) SetConditions([]status.Condition) {}

func (n nodeClass) StatusConditions(options ...status.ForOption) status.ConditionSet {
	return status.NewReadyConditions().For(n, options...)
}

// classesOf names the kinds of class that the pools refer to as supported.
func classesOf(pools []*karpenter.NodePool) []status.Object {
	classes := []status.Object{}
	for _, pool := range pools {
		of := &unstructured.Unstructured{}
		kind := pool.Spec.Template.Spec.NodeClassRef.GroupKind()
		of.SetGroupVersionKind(schema.GroupVersionKind{Group: kind.Group, Version: "v1", Kind: kind.Kind})
		classes = append(classes, nodeClass{of})
	}
	return classes
}
