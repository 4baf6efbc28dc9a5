//! What the planner guarantees: scenarios with the plan and report that they lead to, and
//! properties that hold for every snapshot.

#[cfg(test)]
mod binding;
#[cfg(test)]
mod capacity;
#[cfg(test)]
mod checker;
#[cfg(test)]
mod consolidation;
#[cfg(test)]
mod departing;
#[cfg(test)]
mod drawn_neighbours;
#[cfg(test)]
mod findings;
#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod flexibility;
#[cfg(test)]
mod hard_clusters;
#[cfg(test)]
mod headroom;
#[cfg(test)]
mod interruptions;
#[cfg(test)]
mod karpenter;
#[cfg(test)]
mod keepers;
#[cfg(test)]
mod leaving;
mod moves;
mod needs;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod rate;
#[cfg(test)]
mod snapshot_files;
#[cfg(test)]
mod subsets;
#[cfg(test)]
mod topology;
