#pragma once

#include "absl/status/status.h"
#include "server/core/command.h"
#include "server/core/job.h"
#include "server/core/worker.h"
#include "server/journal/journal_record.pb.h"
#include "server/journal/journal_snapshot.pb.h"
#include "server/journal/message_fields.h"

// The exceptions: fields that the journal keeps in another way than their list says. Pure; any
// thread.

namespace dp::server {

template <>
struct OwnForm<Exit> {
  static void Save(const Exit& exit, v1::Exit* proto);
  static absl::Status Load(const v1::Exit& proto, Exit* exit);
};

template <>
struct OwnForm<core::StartEpoch> {
  using Fields = FieldList<&core::StartEpoch::store_limits, &core::StartEpoch::kept_answers>;
  static void Save(const core::StartEpoch& start, journal::StartEpoch* proto);
  static absl::Status Load(const journal::StartEpoch& proto, core::StartEpoch* start);
};

// A SubmitJob holds the spec without a message of its own.
template <>
struct OwnForm<core::SubmitJob> {
  using Fields = FieldList<&core::SubmitJob::spec>;
  static void Save(const core::SubmitJob& submit, journal::SubmitJob* proto);
  static absl::Status Load(const journal::SubmitJob& proto, core::SubmitJob* submit);
};

// Absent fields have the defaults of JobSpec: the releases before them had no such field.
template <>
struct OwnForm<core::JobSpec> {
  using Fields = FieldList<&core::JobSpec::grace, &core::JobSpec::scheduling>;
  static void Save(const core::JobSpec& spec, journal::SubmitJob* proto);
  static absl::Status Load(const journal::SubmitJob& proto, core::JobSpec* spec);
};

// Constraints are in the form of job files.
template <>
struct OwnForm<core::Scheduling> {
  using Fields = FieldList<&core::Scheduling::constraints>;
  static void Save(const core::Scheduling& scheduling, journal::Scheduling* proto);
  static absl::Status Load(const journal::Scheduling& proto, core::Scheduling* scheduling);
};

// See RegisterWorker::replaces.
template <>
struct OwnForm<core::RegisterWorker> {
  using Fields = FieldList<&core::RegisterWorker::replaces>;
};

// See ForgetJob::submitted_at.
template <>
struct OwnForm<core::ForgetJob> {
  using Fields = FieldList<&core::ForgetJob::submitted_at>;
};

// See ReportRank::job_submitted_at.
template <>
struct OwnForm<core::ReportRank> {
  using Fields = FieldList<&core::ReportRank::job_submitted_at>;
};

template <>
struct OwnForm<core::StoreBatch> {
  using Fields = FieldList<&core::StoreBatch::operations>;
  static void Save(const core::StoreBatch& batch, journal::StoreBatch* proto);
  static absl::Status Load(const journal::StoreBatch& proto, core::StoreBatch* batch);
};

// The state is `lost`.
template <>
struct OwnForm<core::Worker> {
  using Fields = FieldList<&core::Worker::state>;
  static void Save(const core::Worker& worker, journal::SavedWorker* proto);
  static absl::Status Load(const journal::SavedWorker& proto, core::Worker* worker);
};

template <>
struct OwnForm<core::Rendezvous> {
  static void Save(const core::Rendezvous& world, journal::SavedWorld* proto);
  static absl::Status Load(const journal::SavedWorld& proto, core::Rendezvous* world);
};

// The reason is in the SavedJob.
template <>
struct OwnForm<core::Handover> {
  using Fields = FieldList<&core::Handover::reason>;
};

// The submission is the command that made the job.
template <>
struct OwnForm<core::Job> {
  using Fields = FieldList<&core::Job::request_id, &core::Job::user, &core::Job::owner,
                           &core::Job::spec, &core::Job::secrets, &core::Job::submitted_at,
                           &core::Job::checkpoints, &core::Job::handover>;
  static void Save(const core::Job& job, journal::SavedJob* proto);
  static absl::Status Load(const journal::SavedJob& proto, core::Job* job);
};

}  // namespace dp::server
