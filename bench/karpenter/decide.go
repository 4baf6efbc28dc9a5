package main

import (
	"context"
	"errors"
	"runtime"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	"sigs.k8s.io/karpenter/pkg/operator/options"
)

// silent takes events and drops them.
type silent struct{}

func (silent) Publish(...events.Event) {}

// decide does what Karpenter's provisioner does in one round, up to the point where it would launch.
func decide(asked request, shelf catalogs) (*answer, error) {
	kinds, err := shelf.read(asked.Catalog)
	if err != nil {
		return nil, err
	}
	objects, err := readSnapshot(asked.Snapshot)
	if err != nil {
		return nil, err
	}
	settings := &options.Options{
		PreferencePolicy:  options.PreferencePolicyRespect,
		MinValuesPolicy:   options.MinValuesPolicyStrict,
		CPURequests:       int64(runtime.NumCPU()) * 1000,
		IgnoreDRARequests: true,
		FeatureGates:      options.FeatureGates{ReservedCapacity: true},
	}
	how := []scheduling.Options{
		scheduling.DisableReservedCapacityFallback,
		scheduling.NumConcurrentReconciles(runtime.NumCPU()),
		scheduling.MinValuesPolicy(settings.MinValuesPolicy),
	}
	if asked.IgnorePreferences {
		settings.PreferencePolicy = options.PreferencePolicyIgnore
		how = append(how, scheduling.IgnorePreferences)
	}
	ctx := options.ToContext(injection.WithControllerName(context.Background(), "provisioner"), settings)
	cloud := &provider{kinds: kinds, classes: classesOf(all[*karpenter.NodePool](objects))}
	cluster, err := observe(ctx, objects, cloud)
	if err != nil {
		return nil, err
	}
	provisioner := provisioning.NewProvisioner(objects, silent{}, cloud, cluster, clock.RealClock{}, nil, nil)
	nodes := cluster.DeepCopyNodes().Active()
	pods, err := provisioner.GetPendingPods(ctx)
	if err != nil {
		return nil, err
	}
	scheduler, err := provisioner.NewScheduler(ctx, pods, nodes, sets.New[types.UID](), how...)
	if errors.Is(err, provisioning.ErrNodePoolsNotFound) {
		return newAnswer(objects, scheduling.Results{}, 0, true), nil
	}
	if err != nil {
		return nil, err
	}
	limited, cancel := ctx, context.CancelFunc(func() {})
	if asked.LimitSeconds > 0 {
		limited, cancel = context.WithTimeout(ctx, time.Duration(asked.LimitSeconds*float64(time.Second)))
	}
	defer cancel()
	runtime.GC()
	begun := time.Now()
	results, err := scheduler.Solve(limited, pods)
	seconds := time.Since(begun).Seconds()
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, err
	}
	complete := limited.Err() == nil
	results = results.TruncateInstanceTypes(ctx, scheduling.MaxInstanceTypes)
	given := newAnswer(objects, results, seconds, complete)
	if asked.Plan {
		given.Plan = newPlan(results, given)
	}
	return given, nil
}

// observe fills Karpenter's picture of the cluster as its informers do.
func observe(ctx context.Context, objects *store, cloud *provider) (*state.Cluster, error) {
	cluster := state.NewCluster(clock.RealClock{}, objects, cloud)
	for _, set := range all[*appsv1.DaemonSet](objects) {
		if err := cluster.UpdateDaemonSet(ctx, set); err != nil {
			return nil, err
		}
	}
	for _, node := range all[*corev1.Node](objects) {
		if err := cluster.UpdateNode(ctx, node.DeepCopy()); err != nil {
			return nil, err
		}
		// Each pod once more, since only this looks at its anti-affinity.
		for _, pod := range objects.byNode[node.Name] {
			if err := cluster.UpdatePod(ctx, pod.DeepCopy()); err != nil {
				return nil, err
			}
		}
	}
	return cluster, nil
}
