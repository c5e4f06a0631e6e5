CREATE TABLE "django_migrations" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "app" varchar(255) NOT NULL, "name" varchar(255) NOT NULL, "applied" datetime NOT NULL)

CREATE TABLE "django_content_type" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "app_label" varchar(100) NOT NULL, "model" varchar(100) NOT NULL)

CREATE UNIQUE INDEX "django_content_type_app_label_model_76bd3d3b_uniq" ON "django_content_type" ("app_label", "model")

CREATE TABLE "auth_group_permissions" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "group_id" integer NOT NULL REFERENCES "auth_group" ("id") DEFERRABLE INITIALLY DEFERRED, "permission_id" integer NOT NULL REFERENCES "auth_permission" ("id") DEFERRABLE INITIALLY DEFERRED)

CREATE UNIQUE INDEX "auth_group_permissions_group_id_permission_id_0cd325b0_uniq" ON "auth_group_permissions" ("group_id", "permission_id")

CREATE INDEX "auth_group_permissions_group_id_b120cbf9" ON "auth_group_permissions" ("group_id")

CREATE INDEX "auth_group_permissions_permission_id_84c5c92e" ON "auth_group_permissions" ("permission_id")

CREATE TABLE "auth_permission" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "content_type_id" integer NOT NULL REFERENCES "django_content_type" ("id") DEFERRABLE INITIALLY DEFERRED, "codename" varchar(100) NOT NULL, "name" varchar(255) NOT NULL)

CREATE UNIQUE INDEX "auth_permission_content_type_id_codename_01ab375a_uniq" ON "auth_permission" ("content_type_id", "codename")

CREATE INDEX "auth_permission_content_type_id_2f476e4b" ON "auth_permission" ("content_type_id")

CREATE TABLE "auth_group" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "name" varchar(150) NOT NULL UNIQUE)

CREATE TABLE "benchapp_blob" ("digest" varchar(64) NOT NULL PRIMARY KEY, "size" bigint unsigned NOT NULL CHECK ("size" >= 0), "data" BLOB NOT NULL)

CREATE TABLE "benchapp_environment" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "key" varchar(200) NOT NULL, "name" varchar(200) NOT NULL, "ordinal" integer unsigned NOT NULL CHECK ("ordinal" >= 0), "kind" varchar(32) NOT NULL, "suite_id" bigint NOT NULL REFERENCES "benchapp_suite" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "environment_key" UNIQUE ("suite_id", "key"))

CREATE TABLE "benchapp_user" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "password" varchar(128) NOT NULL, "last_login" datetime NULL, "is_superuser" bool NOT NULL, "username" varchar(150) NOT NULL UNIQUE, "first_name" varchar(150) NOT NULL, "last_name" varchar(150) NOT NULL, "email" varchar(254) NOT NULL, "is_staff" bool NOT NULL, "is_active" bool NOT NULL, "date_joined" datetime NOT NULL, "level" varchar(16) NOT NULL, "pseudonym" varchar(32) NOT NULL UNIQUE)

CREATE TABLE "benchapp_user_groups" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "user_id" bigint NOT NULL REFERENCES "benchapp_user" ("id") DEFERRABLE INITIALLY DEFERRED, "group_id" integer NOT NULL REFERENCES "auth_group" ("id") DEFERRABLE INITIALLY DEFERRED)

CREATE TABLE "benchapp_user_user_permissions" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "user_id" bigint NOT NULL REFERENCES "benchapp_user" ("id") DEFERRABLE INITIALLY DEFERRED, "permission_id" integer NOT NULL REFERENCES "auth_permission" ("id") DEFERRABLE INITIALLY DEFERRED)

CREATE TABLE "benchapp_experiment" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "name" varchar(300) NOT NULL, "origin" varchar(16) NOT NULL, "status" varchar(16) NOT NULL, "spec" text NOT NULL CHECK ((JSON_VALID("spec") OR "spec" IS NULL)), "estimate" text NOT NULL CHECK ((JSON_VALID("estimate") OR "estimate" IS NULL)), "source" varchar(1000) NOT NULL, "created_at" datetime NOT NULL, "started_at" datetime NULL, "finished_at" datetime NULL, "deleted_at" datetime NULL, "created_by_id" bigint NULL REFERENCES "benchapp_user" ("id") DEFERRABLE INITIALLY DEFERRED, "suite_id" bigint NULL REFERENCES "benchapp_suite" ("id") DEFERRABLE INITIALLY DEFERRED)

CREATE TABLE "benchapp_run" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "condition" varchar(100) NOT NULL, "replicate" integer unsigned NULL CHECK ("replicate" >= 0), "harness" varchar(100) NOT NULL, "harness_version" varchar(100) NOT NULL, "agent_model" varchar(200) NOT NULL, "author_model" varchar(200) NOT NULL, "author_agent" varchar(100) NOT NULL, "scripted" bool NOT NULL, "status" varchar(16) NOT NULL, "seed" bigint NULL, "setup" text NOT NULL CHECK ((JSON_VALID("setup") OR "setup" IS NULL)), "setup_digest" varchar(64) NOT NULL, "budget_usd" real NULL, "budget_tokens" bigint unsigned NULL CHECK ("budget_tokens" >= 0), "source_key" varchar(1000) NOT NULL, "revision" bigint unsigned NOT NULL CHECK ("revision" >= 0), "created_at" datetime NOT NULL, "experiment_id" bigint NOT NULL REFERENCES "benchapp_experiment" ("id") DEFERRABLE INITIALLY DEFERRED, "forked_from_id" bigint NULL REFERENCES "benchapp_run" ("id") DEFERRABLE INITIALLY DEFERRED, "joined_from_id" bigint NULL REFERENCES "benchapp_experiment" ("id") DEFERRABLE INITIALLY DEFERRED)

CREATE TABLE "benchapp_judging" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "model" varchar(200) NOT NULL, "model_version" varchar(64) NOT NULL, "prompt_version" varchar(32) NOT NULL, "scripted" bool NOT NULL, "repeat" integer unsigned NOT NULL CHECK ("repeat" >= 0), "metrics" text NOT NULL CHECK ((JSON_VALID("metrics") OR "metrics" IS NULL)), "started_at" datetime NOT NULL, "finished_at" datetime NULL, "stopped" text NOT NULL, "run_id" bigint NOT NULL REFERENCES "benchapp_run" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "one_pass_of_a_judge" UNIQUE ("run_id", "model", "prompt_version", "repeat"))

CREATE TABLE "benchapp_family" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "key" varchar(200) NOT NULL, "slug" varchar(200) NOT NULL, "name" varchar(200) NOT NULL, "description" text NOT NULL, "ordinal" integer unsigned NOT NULL CHECK ("ordinal" >= 0), "environment_id" bigint NULL REFERENCES "benchapp_environment" ("id") DEFERRABLE INITIALLY DEFERRED, "suite_id" bigint NOT NULL REFERENCES "benchapp_suite" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "family_key" UNIQUE ("suite_id", "key"))

CREATE TABLE "benchapp_snapshot" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "digest" varchar(64) NOT NULL UNIQUE, "files_total" integer unsigned NOT NULL CHECK ("files_total" >= 0), "skills_total" integer unsigned NOT NULL CHECK ("skills_total" >= 0), "bytes_total" bigint unsigned NOT NULL CHECK ("bytes_total" >= 0))

CREATE TABLE "benchapp_episode" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "key" varchar(300) NOT NULL, "title" varchar(300) NOT NULL, "ordinal" integer unsigned NOT NULL CHECK ("ordinal" >= 0), "protocol" varchar(64) NOT NULL, "is_ordered" bool NOT NULL, "is_tainted" bool NOT NULL, "status" varchar(16) NOT NULL, "blocked_reason" text NOT NULL, "failures" integer unsigned NOT NULL CHECK ("failures" >= 0), "last_failure" text NOT NULL, "wish" varchar(16) NOT NULL, "copied_entries" integer unsigned NOT NULL CHECK ("copied_entries" >= 0), "lease_owner" varchar(200) NOT NULL, "lease_until" datetime NULL, "lease_epoch" bigint unsigned NOT NULL CHECK ("lease_epoch" >= 0), "environment_id" bigint NULL REFERENCES "benchapp_environment" ("id") DEFERRABLE INITIALLY DEFERRED, "family_id" bigint NULL REFERENCES "benchapp_family" ("id") DEFERRABLE INITIALLY DEFERRED, "run_id" bigint NOT NULL REFERENCES "benchapp_run" ("id") DEFERRABLE INITIALLY DEFERRED, "library_id" bigint NULL REFERENCES "benchapp_snapshot" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "episode_key" UNIQUE ("run_id", "key"))

CREATE TABLE "benchapp_modelcall" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "key" varchar(300) NOT NULL, "purpose" varchar(32) NOT NULL, "model" varchar(200) NOT NULL, "scripted" bool NOT NULL, "is_copy" bool NOT NULL, "status" varchar(16) NOT NULL, "error" text NOT NULL, "input_tokens" bigint unsigned NULL CHECK ("input_tokens" >= 0), "cached_tokens" bigint unsigned NULL CHECK ("cached_tokens" >= 0), "output_tokens" bigint unsigned NULL CHECK ("output_tokens" >= 0), "cost_usd" real NULL, "priced_usd" real NULL, "input_at_least" bigint unsigned NULL CHECK ("input_at_least" >= 0), "output_at_least" bigint unsigned NULL CHECK ("output_at_least" >= 0), "price_table" varchar(64) NOT NULL, "started_at" datetime NOT NULL, "finished_at" datetime NULL, "episode_id" bigint NOT NULL REFERENCES "benchapp_episode" ("id") DEFERRABLE INITIALLY DEFERRED, "reply_id" varchar(64) NULL REFERENCES "benchapp_blob" ("digest") DEFERRABLE INITIALLY DEFERRED, "request_id" varchar(64) NOT NULL REFERENCES "benchapp_blob" ("digest") DEFERRABLE INITIALLY DEFERRED)

CREATE TABLE "benchapp_task" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "key" varchar(300) NOT NULL, "title" varchar(300) NOT NULL, "role" varchar(32) NOT NULL, "ordinal" integer unsigned NOT NULL CHECK ("ordinal" >= 0), "family_id" bigint NULL REFERENCES "benchapp_family" ("id") DEFERRABLE INITIALLY DEFERRED, "same_as_id" bigint NULL REFERENCES "benchapp_task" ("id") DEFERRABLE INITIALLY DEFERRED, "suite_id" bigint NOT NULL REFERENCES "benchapp_suite" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "task_key" UNIQUE ("suite_id", "key"))

CREATE TABLE "benchapp_taskrevision" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "digest" varchar(100) NOT NULL, "foreign_digests" text NOT NULL CHECK ((JSON_VALID("foreign_digests") OR "foreign_digests" IS NULL)), "instruction_id" varchar(64) NULL REFERENCES "benchapp_blob" ("digest") DEFERRABLE INITIALLY DEFERRED, "task_id" bigint NOT NULL REFERENCES "benchapp_task" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "task_revision_digest" UNIQUE ("task_id", "digest"))

CREATE TABLE "benchapp_trial" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "phase" varchar(16) NOT NULL, "sample" integer unsigned NOT NULL CHECK ("sample" >= 0), "status" varchar(16) NOT NULL, "is_done" bool NOT NULL, "success" bool NULL, "reward" real NULL, "outcome" real NULL, "process" real NULL, "overall" real NULL, "checks_passed" integer unsigned NULL CHECK ("checks_passed" >= 0), "checks_total" integer unsigned NULL CHECK ("checks_total" >= 0), "steps" integer unsigned NULL CHECK ("steps" >= 0), "turns" integer unsigned NULL CHECK ("turns" >= 0), "input_tokens" bigint unsigned NULL CHECK ("input_tokens" >= 0), "cached_tokens" bigint unsigned NULL CHECK ("cached_tokens" >= 0), "output_tokens" bigint unsigned NULL CHECK ("output_tokens" >= 0), "input_at_least" bigint unsigned NULL CHECK ("input_at_least" >= 0), "output_at_least" bigint unsigned NULL CHECK ("output_at_least" >= 0), "cost_usd" real NULL, "estimated_usd" real NULL, "duration_seconds" real NULL, "exception_type" varchar(200) NOT NULL, "skills_mounted" integer unsigned NULL CHECK ("skills_mounted" >= 0), "skills_read" integer unsigned NULL CHECK ("skills_read" >= 0), "attempts_total" integer unsigned NOT NULL CHECK ("attempts_total" >= 0), "finished_at" datetime NULL, "settled_at" datetime NULL, "episode_id" bigint NOT NULL REFERENCES "benchapp_episode" ("id") DEFERRABLE INITIALLY DEFERRED, "snapshot_id" bigint NULL REFERENCES "benchapp_snapshot" ("id") DEFERRABLE INITIALLY DEFERRED, "task_id" bigint NOT NULL REFERENCES "benchapp_task" ("id") DEFERRABLE INITIALLY DEFERRED, "task_revision_id" bigint NULL REFERENCES "benchapp_taskrevision" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "trial_slot" UNIQUE ("episode_id", "phase", "task_id", "sample"))

CREATE TABLE "benchapp_trial_retrieved" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "from_trial_id" bigint NOT NULL REFERENCES "benchapp_trial" ("id") DEFERRABLE INITIALLY DEFERRED, "to_trial_id" bigint NOT NULL REFERENCES "benchapp_trial" ("id") DEFERRABLE INITIALLY DEFERRED)

CREATE TABLE "benchapp_decision" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "number" integer unsigned NOT NULL CHECK ("number" >= 0), "round" integer unsigned NOT NULL CHECK ("round" >= 0), "mode" varchar(16) NOT NULL, "answer" integer unsigned NOT NULL CHECK ("answer" >= 0), "status" varchar(16) NOT NULL, "operation_type" varchar(32) NOT NULL, "summary" text NOT NULL, "findings" text NOT NULL CHECK ((JSON_VALID("findings") OR "findings" IS NULL)), "error" text NOT NULL, "lines_added" integer unsigned NOT NULL CHECK ("lines_added" >= 0), "lines_removed" integer unsigned NOT NULL CHECK ("lines_removed" >= 0), "files_changed" integer unsigned NOT NULL CHECK ("files_changed" >= 0), "decided_at" datetime NOT NULL, "patch_id" varchar(64) NULL REFERENCES "benchapp_blob" ("digest") DEFERRABLE INITIALLY DEFERRED, "episode_id" bigint NOT NULL REFERENCES "benchapp_episode" ("id") DEFERRABLE INITIALLY DEFERRED, "family_id" bigint NOT NULL REFERENCES "benchapp_family" ("id") DEFERRABLE INITIALLY DEFERRED, "call_id" bigint NULL REFERENCES "benchapp_modelcall" ("id") DEFERRABLE INITIALLY DEFERRED, "after_id" bigint NOT NULL REFERENCES "benchapp_snapshot" ("id") DEFERRABLE INITIALLY DEFERRED, "before_id" bigint NOT NULL REFERENCES "benchapp_snapshot" ("id") DEFERRABLE INITIALLY DEFERRED, "after_trial_id" bigint NULL REFERENCES "benchapp_trial" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "decision_number" UNIQUE ("episode_id", "number"))

CREATE TABLE "benchapp_codebook" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "name" varchar(200) NOT NULL UNIQUE, "about" text NOT NULL, "cloned_from" varchar(200) NOT NULL, "created_at" datetime NOT NULL, "created_by_id" bigint NULL REFERENCES "benchapp_user" ("id") DEFERRABLE INITIALLY DEFERRED)

CREATE TABLE "benchapp_codebookversion" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "number" integer unsigned NOT NULL CHECK ("number" >= 0), "note" text NOT NULL, "digest" varchar(64) NOT NULL, "created_at" datetime NOT NULL, "frozen_at" datetime NULL, "codebook_id" bigint NOT NULL REFERENCES "benchapp_codebook" ("id") DEFERRABLE INITIALLY DEFERRED, "created_by_id" bigint NULL REFERENCES "benchapp_user" ("id") DEFERRABLE INITIALLY DEFERRED, "frozen_by_id" bigint NULL REFERENCES "benchapp_user" ("id") DEFERRABLE INITIALLY DEFERRED, "previous_id" bigint NULL REFERENCES "benchapp_codebookversion" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "codebook_version_number" UNIQUE ("codebook_id", "number"))

CREATE TABLE "benchapp_queue" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "name" varchar(200) NOT NULL, "unit" varchar(16) NOT NULL, "instructions" text NOT NULL, "population" text NOT NULL, "population_total" integer unsigned NOT NULL CHECK ("population_total" >= 0), "sampling" varchar(16) NOT NULL, "strata" varchar(64) NOT NULL, "seed" bigint unsigned NOT NULL CHECK ("seed" >= 0), "reviews_per_item" smallint unsigned NOT NULL CHECK ("reviews_per_item" >= 0), "overlap_share" real NOT NULL, "hides_labels" bool NOT NULL, "hides_suggestions" bool NOT NULL, "hides_conditions" bool NOT NULL, "hides_models" bool NOT NULL, "reservation_seconds" integer unsigned NOT NULL CHECK ("reservation_seconds" >= 0), "created_at" datetime NOT NULL, "closed_at" datetime NULL, "carried_from_id" bigint NULL REFERENCES "benchapp_queue" ("id") DEFERRABLE INITIALLY DEFERRED, "created_by_id" bigint NULL REFERENCES "benchapp_user" ("id") DEFERRABLE INITIALLY DEFERRED, "version_id" bigint NOT NULL REFERENCES "benchapp_codebookversion" ("id") DEFERRABLE INITIALLY DEFERRED)

CREATE TABLE "benchapp_queue_reviewers" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "queue_id" bigint NOT NULL REFERENCES "benchapp_queue" ("id") DEFERRABLE INITIALLY DEFERRED, "user_id" bigint NOT NULL REFERENCES "benchapp_user" ("id") DEFERRABLE INITIALLY DEFERRED)

CREATE TABLE "benchapp_queueitem" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "ordinal" integer unsigned NOT NULL CHECK ("ordinal" >= 0), "stratum" varchar(300) NOT NULL, "inclusion" real NOT NULL, "is_control" bool NOT NULL, "is_overlap" bool NOT NULL, "reviews_needed" smallint unsigned NOT NULL CHECK ("reviews_needed" >= 0), "decision_id" bigint NULL REFERENCES "benchapp_decision" ("id") DEFERRABLE INITIALLY DEFERRED, "episode_id" bigint NULL REFERENCES "benchapp_episode" ("id") DEFERRABLE INITIALLY DEFERRED, "queue_id" bigint NOT NULL REFERENCES "benchapp_queue" ("id") DEFERRABLE INITIALLY DEFERRED, "snapshot_id" bigint NULL REFERENCES "benchapp_snapshot" ("id") DEFERRABLE INITIALLY DEFERRED, "trial_id" bigint NULL REFERENCES "benchapp_trial" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "queue_item_place" UNIQUE ("queue_id", "ordinal"), CONSTRAINT "inclusion_is_a_probability" CHECK (("inclusion" > 0.0 AND "inclusion" <= 1.0)), CONSTRAINT "queue_item_is_one_unit" CHECK ((("decision_id" IS NULL AND "snapshot_id" IS NULL AND "trial_id" IS NOT NULL) OR ("decision_id" IS NOT NULL AND "snapshot_id" IS NULL AND "trial_id" IS NULL) OR ("decision_id" IS NULL AND "snapshot_id" IS NOT NULL AND "trial_id" IS NULL))))

CREATE TABLE "benchapp_review" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "state" varchar(16) NOT NULL, "revision" integer unsigned NOT NULL CHECK ("revision" >= 0), "memo" text NOT NULL, "confidence" smallint unsigned NULL CHECK ("confidence" >= 0), "skip_reason" varchar(500) NOT NULL, "started_at" datetime NOT NULL, "saved_at" datetime NOT NULL, "submitted_at" datetime NULL, "seconds" real NOT NULL, "guess" varchar(100) NOT NULL, "guessed_at" datetime NULL, "carried_from_id" bigint NULL REFERENCES "benchapp_review" ("id") DEFERRABLE INITIALLY DEFERRED, "item_id" bigint NOT NULL REFERENCES "benchapp_queueitem" ("id") DEFERRABLE INITIALLY DEFERRED, "reviewer_id" bigint NOT NULL REFERENCES "benchapp_user" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "one_review_per_person" UNIQUE ("item_id", "reviewer_id"))

CREATE TABLE "benchapp_attempt" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "number" integer unsigned NOT NULL CHECK ("number" >= 0), "counts" bool NOT NULL, "is_copy" bool NOT NULL, "status" varchar(16) NOT NULL, "worker" varchar(200) NOT NULL, "sandbox" text NOT NULL CHECK ((JSON_VALID("sandbox") OR "sandbox" IS NULL)), "lease_epoch" bigint unsigned NOT NULL CHECK ("lease_epoch" >= 0), "started_at" datetime NULL, "finished_at" datetime NULL, "started_text" varchar(64) NOT NULL, "finished_text" varchar(64) NOT NULL, "agent_seconds" real NULL, "verifier_seconds" real NULL, "queued_seconds" real NOT NULL, "files_digest" varchar(64) NOT NULL, "turns" integer unsigned NULL CHECK ("turns" >= 0), "input_tokens" bigint unsigned NULL CHECK ("input_tokens" >= 0), "cached_tokens" bigint unsigned NULL CHECK ("cached_tokens" >= 0), "output_tokens" bigint unsigned NULL CHECK ("output_tokens" >= 0), "cost_usd" real NULL, "priced_usd" real NULL, "input_at_least" bigint unsigned NULL CHECK ("input_at_least" >= 0), "output_at_least" bigint unsigned NULL CHECK ("output_at_least" >= 0), "estimated_usd" real NULL, "price_table" varchar(64) NOT NULL, "source_tokens" text NOT NULL CHECK ((JSON_VALID("source_tokens") OR "source_tokens" IS NULL)), "exception_type" varchar(200) NOT NULL, "exception_message" text NOT NULL, "source_key" varchar(1000) NOT NULL, "source_digest" varchar(64) NOT NULL, "session_root" varchar(64) NOT NULL, "lineage" text NOT NULL CHECK ((JSON_VALID("lineage") OR "lineage" IS NULL)), "exception_id" varchar(64) NULL REFERENCES "benchapp_blob" ("digest") DEFERRABLE INITIALLY DEFERRED, "source_config_id" varchar(64) NULL REFERENCES "benchapp_blob" ("digest") DEFERRABLE INITIALLY DEFERRED, "trial_id" bigint NOT NULL REFERENCES "benchapp_trial" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "attempt_number" UNIQUE ("trial_id", "number"))

CREATE TABLE "benchapp_trajectory" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "name" varchar(300) NOT NULL, "kind" varchar(16) NOT NULL, "ordinal" integer unsigned NOT NULL CHECK ("ordinal" >= 0), "digest" varchar(64) NOT NULL, "source_format" varchar(64) NOT NULL, "source_path" varchar(1000) NOT NULL, "reader_version" varchar(64) NOT NULL, "is_superseded" bool NOT NULL, "steps_total" integer unsigned NOT NULL CHECK ("steps_total" >= 0), "copied_steps" integer unsigned NOT NULL CHECK ("copied_steps" >= 0), "agent_name" varchar(100) NOT NULL, "agent_version" varchar(100) NOT NULL, "model" varchar(200) NOT NULL, "input_tokens" bigint unsigned NULL CHECK ("input_tokens" >= 0), "cached_tokens" bigint unsigned NULL CHECK ("cached_tokens" >= 0), "output_tokens" bigint unsigned NULL CHECK ("output_tokens" >= 0), "cost_usd" real NULL, "extra" text NOT NULL CHECK ((JSON_VALID("extra") OR "extra" IS NULL)), "attempt_id" bigint NULL REFERENCES "benchapp_attempt" ("id") DEFERRABLE INITIALLY DEFERRED, "call_id" bigint NULL REFERENCES "benchapp_modelcall" ("id") DEFERRABLE INITIALLY DEFERRED, "parent_id" bigint NULL REFERENCES "benchapp_trajectory" ("id") DEFERRABLE INITIALLY DEFERRED, "source_id" varchar(64) NULL REFERENCES "benchapp_blob" ("digest") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "trajectory_name_in_call" UNIQUE ("call_id", "name"), CONSTRAINT "trajectory_of_attempt_or_call" CHECK ((("attempt_id" IS NULL AND "call_id" IS NOT NULL) OR ("attempt_id" IS NOT NULL AND "call_id" IS NULL))))

CREATE TABLE "benchapp_mark" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL, "ordinal" integer unsigned NOT NULL CHECK ("ordinal" >= 0), "step" integer unsigned NULL CHECK ("step" >= 0), "field" varchar(64) NOT NULL, "start" bigint unsigned NULL CHECK ("start" >= 0), "end" bigint unsigned NULL CHECK ("end" >= 0), "quote" text NOT NULL, "path" varchar(1000) NOT NULL, "attribution" varchar(16) NOT NULL, "is_first_failure" bool NOT NULL, "memo" text NOT NULL, "review_id" bigint NOT NULL REFERENCES "benchapp_review" ("id") DEFERRABLE INITIALLY DEFERRED, "trajectory_id" bigint NULL REFERENCES "benchapp_trajectory" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "mark_once" UNIQUE ("review_id", "public_id"))

CREATE TABLE "benchapp_refusal" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "paths" text NOT NULL CHECK ((JSON_VALID("paths") OR "paths" IS NULL)), "reason" text NOT NULL, "trial_id" bigint NULL REFERENCES "benchapp_trial" ("id") DEFERRABLE INITIALLY DEFERRED)

CREATE TABLE "benchapp_seal" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "library_digest" varchar(64) NOT NULL, "setup_digest" varchar(64) NOT NULL, "seal" varchar(64) NOT NULL, "sealed_at" datetime NOT NULL, "snapshot_id" bigint NOT NULL REFERENCES "benchapp_snapshot" ("id") DEFERRABLE INITIALLY DEFERRED)

CREATE TABLE "benchapp_activity" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "at" datetime NOT NULL, "actor_name" varchar(200) NOT NULL, "verb" varchar(64) NOT NULL, "target_kind" varchar(64) NOT NULL, "target_id" char(32) NULL, "detail" text NOT NULL CHECK ((JSON_VALID("detail") OR "detail" IS NULL)), "reason" text NOT NULL, "actor_id" bigint NULL REFERENCES "benchapp_user" ("id") DEFERRABLE INITIALLY DEFERRED)

CREATE TABLE "benchapp_code" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "name" varchar(120) NOT NULL, "definition" text NOT NULL, "include" text NOT NULL, "exclude" text NOT NULL, "ordinal" integer unsigned NOT NULL CHECK ("ordinal" >= 0), "parent_id" bigint NULL REFERENCES "benchapp_code" ("id") DEFERRABLE INITIALLY DEFERRED, "version_id" bigint NOT NULL REFERENCES "benchapp_codebookversion" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "code_name" UNIQUE ("version_id", "name"))

CREATE TABLE "benchapp_codeorigin" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "kind" varchar(16) NOT NULL, "before_id" bigint NOT NULL REFERENCES "benchapp_code" ("id") DEFERRABLE INITIALLY DEFERRED, "code_id" bigint NOT NULL REFERENCES "benchapp_code" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "code_origin" UNIQUE ("code_id", "before_id"))

CREATE TABLE "benchapp_comment" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "on" varchar(16) NOT NULL, "place" varchar(1000) NOT NULL, "address" varchar(2000) NOT NULL, "text" text NOT NULL, "written_at" datetime NOT NULL, "retracted_at" datetime NULL, "author_id" bigint NOT NULL REFERENCES "benchapp_user" ("id") DEFERRABLE INITIALLY DEFERRED, "parent_id" bigint NULL REFERENCES "benchapp_comment" ("id") DEFERRABLE INITIALLY DEFERRED, "run_id" bigint NULL REFERENCES "benchapp_run" ("id") DEFERRABLE INITIALLY DEFERRED, "trial_id" bigint NULL REFERENCES "benchapp_trial" ("id") DEFERRABLE INITIALLY DEFERRED)

CREATE TABLE "benchapp_comparison" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "name" varchar(200) NOT NULL, "query" text NOT NULL, "metrics" text NOT NULL CHECK ((JSON_VALID("metrics") OR "metrics" IS NULL)), "fingerprint" varchar(64) NOT NULL, "created_at" datetime NOT NULL, "created_by_id" bigint NULL REFERENCES "benchapp_user" ("id") DEFERRABLE INITIALLY DEFERRED)

CREATE TABLE "benchapp_draft" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "status" varchar(16) NOT NULL, "reason" text NOT NULL, "failures" integer unsigned NOT NULL CHECK ("failures" >= 0), "worker" varchar(200) NOT NULL, "lease_until" datetime NULL, "lease_epoch" integer unsigned NOT NULL CHECK ("lease_epoch" >= 0), "name" varchar(200) NOT NULL, "loop" varchar(16) NOT NULL, "brief" text NOT NULL CHECK ((JSON_VALID("brief") OR "brief" IS NULL)), "model" varchar(200) NOT NULL, "max_calls" integer unsigned NULL CHECK ("max_calls" >= 0), "max_usd" real NULL, "asked_at" datetime NOT NULL, "asked_by_id" bigint NULL REFERENCES "benchapp_user" ("id") DEFERRABLE INITIALLY DEFERRED, "head_id" bigint NOT NULL REFERENCES "benchapp_snapshot" ("id") DEFERRABLE INITIALLY DEFERRED, "admitted_as_id" bigint NULL REFERENCES "benchapp_suite" ("id") DEFERRABLE INITIALLY DEFERRED, "suite_id" bigint NULL REFERENCES "benchapp_suite" ("id") DEFERRABLE INITIALLY DEFERRED)

CREATE TABLE "benchapp_importproblem" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "path" varchar(1000) NOT NULL, "place" varchar(300) NOT NULL, "expected" varchar(500) NOT NULL, "message" text NOT NULL, "batch_id" bigint NOT NULL REFERENCES "benchapp_importbatch" ("id") DEFERRABLE INITIALLY DEFERRED)

CREATE TABLE "benchapp_judgedunit" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "key" varchar(600) NOT NULL, "metric" varchar(32) NOT NULL, "skill" varchar(200) NOT NULL, "point" text NOT NULL, "status" varchar(16) NOT NULL, "problem" text NOT NULL, "points" text NOT NULL CHECK ((JSON_VALID("points") OR "points" IS NULL)), "attempt_id" bigint NULL REFERENCES "benchapp_attempt" ("id") DEFERRABLE INITIALLY DEFERRED, "source_id" bigint NULL REFERENCES "benchapp_judgedunit" ("id") DEFERRABLE INITIALLY DEFERRED, "judging_id" bigint NOT NULL REFERENCES "benchapp_judging" ("id") DEFERRABLE INITIALLY DEFERRED, "snapshot_id" bigint NULL REFERENCES "benchapp_snapshot" ("id") DEFERRABLE INITIALLY DEFERRED, "task_id" bigint NOT NULL REFERENCES "benchapp_task" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "judged_once" UNIQUE ("judging_id", "key"))

CREATE TABLE "benchapp_judgement" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "item" varchar(64) NOT NULL, "raw" real NOT NULL, "label" varchar(32) NOT NULL, "value" real NOT NULL, "reason" text NOT NULL, "unit_id" bigint NOT NULL REFERENCES "benchapp_judgedunit" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "judged_item" UNIQUE ("unit_id", "item"))

CREATE TABLE "benchapp_judgingtry" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "number" integer unsigned NOT NULL CHECK ("number" >= 0), "error" text NOT NULL, "input_tokens" bigint unsigned NULL CHECK ("input_tokens" >= 0), "output_tokens" bigint unsigned NULL CHECK ("output_tokens" >= 0), "cost_usd" real NULL, "price_table" varchar(64) NOT NULL, "asked_at" datetime NOT NULL, "reply_id" varchar(64) NULL REFERENCES "benchapp_blob" ("digest") DEFERRABLE INITIALLY DEFERRED, "request_id" varchar(64) NOT NULL REFERENCES "benchapp_blob" ("digest") DEFERRABLE INITIALLY DEFERRED, "unit_id" bigint NOT NULL REFERENCES "benchapp_judgedunit" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "judging_try_number" UNIQUE ("unit_id", "number"))

CREATE TABLE "benchapp_librarydiagnosis" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "rules_version" varchar(64) NOT NULL, "sources_digest" varchar(64) NOT NULL, "alarms" integer unsigned NOT NULL CHECK ("alarms" >= 0), "warnings" integer unsigned NOT NULL CHECK ("warnings" >= 0), "notes" integer unsigned NOT NULL CHECK ("notes" >= 0), "skills" text NOT NULL CHECK ((JSON_VALID("skills") OR "skills" IS NULL)), "left_out" text NOT NULL CHECK ((JSON_VALID("left_out") OR "left_out" IS NULL)), "cut" text NOT NULL CHECK ((JSON_VALID("cut") OR "cut" IS NULL)), "tasks_seen" integer unsigned NOT NULL CHECK ("tasks_seen" >= 0), "trials_read" integer unsigned NOT NULL CHECK ("trials_read" >= 0), "trials_left_out" integer unsigned NOT NULL CHECK ("trials_left_out" >= 0), "references" integer unsigned NOT NULL CHECK ("references" >= 0), "diagnosed_at" datetime NOT NULL, "episode_id" bigint NOT NULL REFERENCES "benchapp_episode" ("id") DEFERRABLE INITIALLY DEFERRED, "snapshot_id" bigint NOT NULL REFERENCES "benchapp_snapshot" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "diagnosis_of_state" UNIQUE ("episode_id", "snapshot_id"))

CREATE TABLE "benchapp_label" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "needs_look" bool NOT NULL, "carried_from_id" bigint NULL REFERENCES "benchapp_label" ("id") DEFERRABLE INITIALLY DEFERRED, "code_id" bigint NOT NULL REFERENCES "benchapp_code" ("id") DEFERRABLE INITIALLY DEFERRED, "mark_id" bigint NOT NULL REFERENCES "benchapp_mark" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "label_once" UNIQUE ("mark_id", "code_id"))

CREATE TABLE "benchapp_mention" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "read_at" datetime NULL, "comment_id" bigint NOT NULL REFERENCES "benchapp_comment" ("id") DEFERRABLE INITIALLY DEFERRED, "user_id" bigint NOT NULL REFERENCES "benchapp_user" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "mention_once" UNIQUE ("comment_id", "user_id"))

CREATE TABLE "benchapp_agreementreport" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "occasion" varchar(16) NOT NULL, "is_before_discussion" bool NOT NULL, "items_total" integer unsigned NOT NULL CHECK ("items_total" >= 0), "reviewers_total" integer unsigned NOT NULL CHECK ("reviewers_total" >= 0), "values" text NOT NULL CHECK ((JSON_VALID("values") OR "values" IS NULL)), "taken_at" datetime NOT NULL, "taken_by_id" bigint NULL REFERENCES "benchapp_user" ("id") DEFERRABLE INITIALLY DEFERRED, "version_id" bigint NOT NULL REFERENCES "benchapp_codebookversion" ("id") DEFERRABLE INITIALLY DEFERRED, "queue_id" bigint NOT NULL REFERENCES "benchapp_queue" ("id") DEFERRABLE INITIALLY DEFERRED)

CREATE TABLE "benchapp_judgecall" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "model" varchar(200) NOT NULL, "prompt_version" varchar(64) NOT NULL, "scripted" bool NOT NULL, "status" varchar(16) NOT NULL, "error" text NOT NULL, "input_tokens" bigint unsigned NULL CHECK ("input_tokens" >= 0), "output_tokens" bigint unsigned NULL CHECK ("output_tokens" >= 0), "cost_usd" real NULL, "called_at" datetime NOT NULL, "reply_id" varchar(64) NULL REFERENCES "benchapp_blob" ("digest") DEFERRABLE INITIALLY DEFERRED, "request_id" varchar(64) NOT NULL REFERENCES "benchapp_blob" ("digest") DEFERRABLE INITIALLY DEFERRED, "queue_id" bigint NOT NULL REFERENCES "benchapp_queue" ("id") DEFERRABLE INITIALLY DEFERRED, "item_id" bigint NOT NULL REFERENCES "benchapp_queueitem" ("id") DEFERRABLE INITIALLY DEFERRED)

CREATE TABLE "benchapp_resolution" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "category" varchar(16) NOT NULL, "attribution" varchar(16) NOT NULL, "memo" text NOT NULL, "resolved_at" datetime NOT NULL, "superseded_at" datetime NULL, "adjudicator_id" bigint NOT NULL REFERENCES "benchapp_user" ("id") DEFERRABLE INITIALLY DEFERRED, "item_id" bigint NOT NULL REFERENCES "benchapp_queueitem" ("id") DEFERRABLE INITIALLY DEFERRED)

CREATE TABLE "benchapp_resolution_codes" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "resolution_id" bigint NOT NULL REFERENCES "benchapp_resolution" ("id") DEFERRABLE INITIALLY DEFERRED, "code_id" bigint NOT NULL REFERENCES "benchapp_code" ("id") DEFERRABLE INITIALLY DEFERRED)

CREATE TABLE "benchapp_judgingorder" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "status" varchar(16) NOT NULL, "reason" text NOT NULL, "failures" integer unsigned NOT NULL CHECK ("failures" >= 0), "worker" varchar(200) NOT NULL, "lease_until" datetime NULL, "lease_epoch" integer unsigned NOT NULL CHECK ("lease_epoch" >= 0), "model" varchar(200) NOT NULL, "prompts" varchar(100) NOT NULL, "metrics" text NOT NULL CHECK ((JSON_VALID("metrics") OR "metrics" IS NULL)), "max_calls" integer unsigned NULL CHECK ("max_calls" >= 0), "max_usd" real NULL, "asked_at" datetime NOT NULL, "tasks_done" integer unsigned NOT NULL CHECK ("tasks_done" >= 0), "tasks_total" integer unsigned NULL CHECK ("tasks_total" >= 0), "asked_by_id" bigint NULL REFERENCES "benchapp_user" ("id") DEFERRABLE INITIALLY DEFERRED, "judging_id" bigint NULL REFERENCES "benchapp_judging" ("id") DEFERRABLE INITIALLY DEFERRED, "run_id" bigint NOT NULL REFERENCES "benchapp_run" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "one_judging_order" UNIQUE ("run_id", "model", "prompts"))

CREATE TABLE "benchapp_seeding" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "family_id" bigint NOT NULL REFERENCES "benchapp_family" ("id") DEFERRABLE INITIALLY DEFERRED, "snapshot_id" bigint NOT NULL REFERENCES "benchapp_snapshot" ("id") DEFERRABLE INITIALLY DEFERRED)

CREATE TABLE "benchapp_skip" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "reason" text NOT NULL, "actor_id" bigint NULL REFERENCES "benchapp_user" ("id") DEFERRABLE INITIALLY DEFERRED, "trial_id" bigint NOT NULL REFERENCES "benchapp_trial" ("id") DEFERRABLE INITIALLY DEFERRED)

CREATE TABLE "benchapp_entry" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "sequence" integer unsigned NOT NULL CHECK ("sequence" >= 0), "kind" varchar(16) NOT NULL, "recorded_at" datetime NOT NULL, "attempt_id" bigint NULL UNIQUE REFERENCES "benchapp_attempt" ("id") DEFERRABLE INITIALLY DEFERRED, "decision_id" bigint NULL UNIQUE REFERENCES "benchapp_decision" ("id") DEFERRABLE INITIALLY DEFERRED, "episode_id" bigint NOT NULL REFERENCES "benchapp_episode" ("id") DEFERRABLE INITIALLY DEFERRED, "refusal_id" bigint NULL UNIQUE REFERENCES "benchapp_refusal" ("id") DEFERRABLE INITIALLY DEFERRED, "seal_id" bigint NULL UNIQUE REFERENCES "benchapp_seal" ("id") DEFERRABLE INITIALLY DEFERRED, "seeding_id" bigint NULL UNIQUE REFERENCES "benchapp_seeding" ("id") DEFERRABLE INITIALLY DEFERRED, "skip_id" bigint NULL UNIQUE REFERENCES "benchapp_skip" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "entry_sequence" UNIQUE ("episode_id", "sequence"))

CREATE TABLE "benchapp_slot" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "place" smallint unsigned NOT NULL CHECK ("place" >= 0), "held_until" datetime NULL, "holder_id" bigint NULL REFERENCES "benchapp_user" ("id") DEFERRABLE INITIALLY DEFERRED, "item_id" bigint NOT NULL REFERENCES "benchapp_queueitem" ("id") DEFERRABLE INITIALLY DEFERRED, "review_id" bigint NULL UNIQUE REFERENCES "benchapp_review" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "slot_place" UNIQUE ("item_id", "place"))

CREATE TABLE "benchapp_draftstep" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "number" integer unsigned NOT NULL CHECK ("number" >= 0), "kind" varchar(16) NOT NULL, "status" varchar(16) NOT NULL, "key" varchar(300) NOT NULL, "role" varchar(32) NOT NULL, "summary" text NOT NULL, "accepts" bool NULL, "words" text NOT NULL, "findings" text NOT NULL CHECK ((JSON_VALID("findings") OR "findings" IS NULL)), "error" text NOT NULL, "model" varchar(200) NOT NULL, "scripted" bool NOT NULL, "input_tokens" bigint unsigned NULL CHECK ("input_tokens" >= 0), "output_tokens" bigint unsigned NULL CHECK ("output_tokens" >= 0), "cost_usd" real NULL, "started_at" datetime NOT NULL, "finished_at" datetime NULL, "by_id" bigint NULL REFERENCES "benchapp_user" ("id") DEFERRABLE INITIALLY DEFERRED, "draft_id" bigint NOT NULL REFERENCES "benchapp_draft" ("id") DEFERRABLE INITIALLY DEFERRED, "reply_id" varchar(64) NULL REFERENCES "benchapp_blob" ("digest") DEFERRABLE INITIALLY DEFERRED, "request_id" varchar(64) NULL REFERENCES "benchapp_blob" ("digest") DEFERRABLE INITIALLY DEFERRED, "after_id" bigint NOT NULL REFERENCES "benchapp_snapshot" ("id") DEFERRABLE INITIALLY DEFERRED, "before_id" bigint NOT NULL REFERENCES "benchapp_snapshot" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "draft_step_number" UNIQUE ("draft_id", "number"))

CREATE TABLE "benchapp_snapshotfile" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "path" varchar(1000) NOT NULL, "skill" varchar(200) NOT NULL, "mode" integer unsigned NOT NULL CHECK ("mode" >= 0), "size" bigint unsigned NOT NULL CHECK ("size" >= 0), "lines" integer unsigned NOT NULL CHECK ("lines" >= 0), "blob_id" varchar(64) NOT NULL REFERENCES "benchapp_blob" ("digest") DEFERRABLE INITIALLY DEFERRED, "snapshot_id" bigint NOT NULL REFERENCES "benchapp_snapshot" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "snapshot_path" UNIQUE ("snapshot_id", "path"))

CREATE TABLE "benchapp_suggestion" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "source" varchar(200) NOT NULL, "rule" varchar(64) NOT NULL, "source_version" varchar(64) NOT NULL, "code_name" varchar(120) NOT NULL, "attribution" varchar(16) NOT NULL, "step" integer unsigned NULL CHECK ("step" >= 0), "quote" text NOT NULL, "reason" text NOT NULL, "made_at" datetime NOT NULL, "call_id" bigint NULL REFERENCES "benchapp_judgecall" ("id") DEFERRABLE INITIALLY DEFERRED, "code_id" bigint NULL REFERENCES "benchapp_code" ("id") DEFERRABLE INITIALLY DEFERRED, "item_id" bigint NOT NULL REFERENCES "benchapp_queueitem" ("id") DEFERRABLE INITIALLY DEFERRED)

CREATE TABLE "benchapp_keypoint" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "kind" varchar(16) NOT NULL, "ordinal" integer unsigned NOT NULL CHECK ("ordinal" >= 0), "text" text NOT NULL, "reason" text NOT NULL, "reference" text NOT NULL, "task_id" bigint NOT NULL REFERENCES "benchapp_task" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "key_point_place" UNIQUE ("task_id", "kind", "ordinal"))

CREATE TABLE "benchapp_taskgroup" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "attribute" varchar(40) NOT NULL, "value" varchar(200) NOT NULL, "is_mapped" bool NOT NULL, "task_id" bigint NOT NULL REFERENCES "benchapp_task" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "task_group_value" UNIQUE ("task_id", "attribute", "value"))

CREATE TABLE "benchapp_taskworkflow" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "by" varchar(100) NOT NULL, "is_settled" bool NOT NULL, "graph" text NOT NULL CHECK ((JSON_VALID("graph") OR "graph" IS NULL)), "revision" integer unsigned NOT NULL CHECK ("revision" >= 0), "finds_consistent" bool NULL, "started_at" datetime NOT NULL, "handed_in_at" datetime NULL, "superseded_at" datetime NULL, "annotator_id" bigint NULL REFERENCES "benchapp_user" ("id") DEFERRABLE INITIALLY DEFERRED, "imported_by_id" bigint NULL REFERENCES "benchapp_user" ("id") DEFERRABLE INITIALLY DEFERRED, "task_id" bigint NOT NULL REFERENCES "benchapp_task" ("id") DEFERRABLE INITIALLY DEFERRED)

CREATE TABLE "benchapp_skilluse" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "step" integer unsigned NULL CHECK ("step" >= 0), "skill" varchar(200) NOT NULL, "kind" varchar(16) NOT NULL, "path" varchar(1000) NOT NULL, "attempt_id" bigint NOT NULL REFERENCES "benchapp_attempt" ("id") DEFERRABLE INITIALLY DEFERRED, "trajectory_id" bigint NULL REFERENCES "benchapp_trajectory" ("id") DEFERRABLE INITIALLY DEFERRED)

CREATE TABLE "benchapp_verdict" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "source" varchar(100) NOT NULL, "verifier_digest" varchar(64) NOT NULL, "is_primary" bool NOT NULL, "success" bool NULL, "reward" real NULL, "outcome" real NULL, "process" real NULL, "overall" real NULL, "rewards" text NOT NULL CHECK ((JSON_VALID("rewards") OR "rewards" IS NULL)), "duration_seconds" real NULL, "notes" text NOT NULL CHECK ((JSON_VALID("notes") OR "notes" IS NULL)), "attempt_id" bigint NOT NULL REFERENCES "benchapp_attempt" ("id") DEFERRABLE INITIALLY DEFERRED, "output_id" varchar(64) NULL REFERENCES "benchapp_blob" ("digest") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "verdict_source" UNIQUE ("attempt_id", "source", "verifier_digest"))

CREATE TABLE "benchapp_searchsource" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "library" varchar(64) NOT NULL, "cut" integer unsigned NOT NULL CHECK ("cut" >= 0), "problem" varchar(500) NOT NULL, "comment_id" bigint NULL UNIQUE REFERENCES "benchapp_comment" ("id") DEFERRABLE INITIALLY DEFERRED, "decision_id" bigint NULL UNIQUE REFERENCES "benchapp_decision" ("id") DEFERRABLE INITIALLY DEFERRED, "episode_id" bigint NULL UNIQUE REFERENCES "benchapp_episode" ("id") DEFERRABLE INITIALLY DEFERRED, "seeding_id" bigint NULL UNIQUE REFERENCES "benchapp_seeding" ("id") DEFERRABLE INITIALLY DEFERRED, "trajectory_id" bigint NULL UNIQUE REFERENCES "benchapp_trajectory" ("id") DEFERRABLE INITIALLY DEFERRED, "verdict_id" bigint NULL UNIQUE REFERENCES "benchapp_verdict" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "search_source_owner" CHECK ((("comment_id" IS NULL AND "decision_id" IS NULL AND "episode_id" IS NULL AND "seeding_id" IS NULL AND "trajectory_id" IS NOT NULL AND "verdict_id" IS NULL) OR ("comment_id" IS NULL AND "decision_id" IS NULL AND "episode_id" IS NULL AND "seeding_id" IS NULL AND "trajectory_id" IS NULL AND "verdict_id" IS NOT NULL) OR ("comment_id" IS NULL AND "decision_id" IS NOT NULL AND "episode_id" IS NULL AND "seeding_id" IS NULL AND "trajectory_id" IS NULL AND "verdict_id" IS NULL) OR ("comment_id" IS NULL AND "decision_id" IS NULL AND "episode_id" IS NULL AND "seeding_id" IS NOT NULL AND "trajectory_id" IS NULL AND "verdict_id" IS NULL) OR ("comment_id" IS NULL AND "decision_id" IS NULL AND "episode_id" IS NOT NULL AND "seeding_id" IS NULL AND "trajectory_id" IS NULL AND "verdict_id" IS NULL) OR ("comment_id" IS NOT NULL AND "decision_id" IS NULL AND "episode_id" IS NULL AND "seeding_id" IS NULL AND "trajectory_id" IS NULL AND "verdict_id" IS NULL))))

CREATE TABLE "benchapp_compaction" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "kind" varchar(16) NOT NULL, "version" varchar(64) NOT NULL, "tokens" integer unsigned NOT NULL CHECK ("tokens" >= 0), "steps_total" integer unsigned NOT NULL CHECK ("steps_total" >= 0), "steps_kept" integer unsigned NOT NULL CHECK ("steps_kept" >= 0), "spans_id" varchar(64) NOT NULL REFERENCES "benchapp_blob" ("digest") DEFERRABLE INITIALLY DEFERRED, "text_id" varchar(64) NOT NULL REFERENCES "benchapp_blob" ("digest") DEFERRABLE INITIALLY DEFERRED, "trajectory_id" bigint NOT NULL REFERENCES "benchapp_trajectory" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "compaction_version" UNIQUE ("trajectory_id", "kind", "version"))

CREATE TABLE "benchapp_chunk" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "ordinal" integer unsigned NOT NULL CHECK ("ordinal" >= 0), "first_step" integer unsigned NOT NULL CHECK ("first_step" >= 0), "steps_total" integer unsigned NOT NULL CHECK ("steps_total" >= 0), "summary" text NOT NULL CHECK ((JSON_VALID("summary") OR "summary" IS NULL)), "blob_id" varchar(64) NOT NULL REFERENCES "benchapp_blob" ("digest") DEFERRABLE INITIALLY DEFERRED, "outline_id" varchar(64) NOT NULL REFERENCES "benchapp_blob" ("digest") DEFERRABLE INITIALLY DEFERRED, "trajectory_id" bigint NOT NULL REFERENCES "benchapp_trajectory" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "chunk_place" UNIQUE ("trajectory_id", "ordinal"))

CREATE TABLE "benchapp_chunk_pieces" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "chunk_id" bigint NOT NULL REFERENCES "benchapp_chunk" ("id") DEFERRABLE INITIALLY DEFERRED, "blob_id" varchar(64) NOT NULL REFERENCES "benchapp_blob" ("digest") DEFERRABLE INITIALLY DEFERRED)

CREATE TABLE "benchapp_searchdocument" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "kind" varchar(16) NOT NULL, "first_step" integer unsigned NULL CHECK ("first_step" >= 0), "last_step" integer unsigned NULL CHECK ("last_step" >= 0), "start" integer unsigned NULL CHECK ("start" >= 0), "end" integer unsigned NULL CHECK ("end" >= 0), "skill" varchar(200) NOT NULL, "path" varchar(1000) NOT NULL, "digest" varchar(64) NOT NULL, "chunk_id" bigint NULL REFERENCES "benchapp_chunk" ("id") DEFERRABLE INITIALLY DEFERRED, "episode_id" bigint NULL REFERENCES "benchapp_episode" ("id") DEFERRABLE INITIALLY DEFERRED, "run_id" bigint NULL REFERENCES "benchapp_run" ("id") DEFERRABLE INITIALLY DEFERRED, "source_id" bigint NOT NULL REFERENCES "benchapp_searchsource" ("id") DEFERRABLE INITIALLY DEFERRED, "trial_id" bigint NULL REFERENCES "benchapp_trial" ("id") DEFERRABLE INITIALLY DEFERRED)

CREATE TABLE "benchapp_libraryfinding" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "ordinal" integer unsigned NOT NULL CHECK ("ordinal" >= 0), "rule" varchar(64) NOT NULL, "group" varchar(16) NOT NULL, "severity" varchar(8) NOT NULL, "path" varchar(1000) NOT NULL, "start" integer unsigned NOT NULL CHECK ("start" >= 0), "end" integer unsigned NOT NULL CHECK ("end" >= 0), "line" integer unsigned NOT NULL CHECK ("line" >= 0), "quote" text NOT NULL, "says" text NOT NULL, "step" integer unsigned NULL CHECK ("step" >= 0), "field" varchar(100) NOT NULL, "diagnosis_id" bigint NOT NULL REFERENCES "benchapp_librarydiagnosis" ("id") DEFERRABLE INITIALLY DEFERRED, "trial_id" bigint NULL REFERENCES "benchapp_trial" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "finding_place" UNIQUE ("diagnosis_id", "ordinal"))

CREATE TABLE "benchapp_decisionevidence" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "ordinal" integer unsigned NOT NULL CHECK ("ordinal" >= 0), "compaction_id" bigint NULL REFERENCES "benchapp_compaction" ("id") DEFERRABLE INITIALLY DEFERRED, "decision_id" bigint NOT NULL REFERENCES "benchapp_decision" ("id") DEFERRABLE INITIALLY DEFERRED, "trial_id" bigint NOT NULL REFERENCES "benchapp_trial" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "evidence_place" UNIQUE ("decision_id", "ordinal"))

CREATE TABLE "benchapp_codeexample" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "step" integer unsigned NULL CHECK ("step" >= 0), "field" varchar(64) NOT NULL, "start" bigint unsigned NULL CHECK ("start" >= 0), "end" bigint unsigned NULL CHECK ("end" >= 0), "path" varchar(1000) NOT NULL, "quote" text NOT NULL, "note" text NOT NULL, "is_counter" bool NOT NULL, "added_by_id" bigint NULL REFERENCES "benchapp_user" ("id") DEFERRABLE INITIALLY DEFERRED, "code_id" bigint NOT NULL REFERENCES "benchapp_code" ("id") DEFERRABLE INITIALLY DEFERRED, "decision_id" bigint NULL REFERENCES "benchapp_decision" ("id") DEFERRABLE INITIALLY DEFERRED, "trial_id" bigint NULL REFERENCES "benchapp_trial" ("id") DEFERRABLE INITIALLY DEFERRED)

CREATE TABLE "benchapp_dimension" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "ordinal" integer unsigned NOT NULL CHECK ("ordinal" >= 0), "name" varchar(200) NOT NULL, "score" real NOT NULL, "max_score" real NOT NULL, "weight" real NOT NULL, "reason" text NOT NULL, "verdict_id" bigint NOT NULL REFERENCES "benchapp_verdict" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "dimension_place" UNIQUE ("verdict_id", "ordinal"))

CREATE TABLE "benchapp_check" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "ordinal" integer unsigned NOT NULL CHECK ("ordinal" >= 0), "group" varchar(16) NOT NULL, "name" varchar(500) NOT NULL, "status" varchar(16) NOT NULL, "message" text NOT NULL, "duration_seconds" real NULL, "verdict_id" bigint NOT NULL REFERENCES "benchapp_verdict" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "check_place" UNIQUE ("verdict_id", "ordinal"))

CREATE VIRTUAL TABLE benchapp_searchindex USING fts5(words, content='', tokenize="ascii tokenchars '|=._'")

CREATE INDEX "benchapp_environment_suite_id_8842e7fe" ON "benchapp_environment" ("suite_id")

CREATE UNIQUE INDEX "benchapp_user_groups_user_id_group_id_de7cf5a4_uniq" ON "benchapp_user_groups" ("user_id", "group_id")

CREATE INDEX "benchapp_user_groups_user_id_12d87900" ON "benchapp_user_groups" ("user_id")

CREATE INDEX "benchapp_user_groups_group_id_24617b07" ON "benchapp_user_groups" ("group_id")

CREATE UNIQUE INDEX "benchapp_user_user_permissions_user_id_permission_id_9841bfc4_uniq" ON "benchapp_user_user_permissions" ("user_id", "permission_id")

CREATE INDEX "benchapp_user_user_permissions_user_id_04ac5923" ON "benchapp_user_user_permissions" ("user_id")

CREATE INDEX "benchapp_user_user_permissions_permission_id_aaa73a13" ON "benchapp_user_user_permissions" ("permission_id")

CREATE INDEX "benchapp_experiment_created_at_d3d2e56a" ON "benchapp_experiment" ("created_at")

CREATE INDEX "benchapp_experiment_created_by_id_afb580db" ON "benchapp_experiment" ("created_by_id")

CREATE INDEX "benchapp_experiment_suite_id_92765cee" ON "benchapp_experiment" ("suite_id")

CREATE INDEX "benchapp_run_condition_d9c479ae" ON "benchapp_run" ("condition")

CREATE INDEX "benchapp_run_experiment_id_06b7c3c2" ON "benchapp_run" ("experiment_id")

CREATE INDEX "benchapp_run_forked_from_id_8f59f6ec" ON "benchapp_run" ("forked_from_id")

CREATE INDEX "benchapp_judging_run_id_507a1e78" ON "benchapp_judging" ("run_id")

CREATE INDEX "benchapp_family_environment_id_82c757f0" ON "benchapp_family" ("environment_id")

CREATE INDEX "benchapp_family_suite_id_2fdb3a96" ON "benchapp_family" ("suite_id")

CREATE INDEX "benchapp_episode_status_4c9fe2b0" ON "benchapp_episode" ("status")

CREATE INDEX "benchapp_episode_environment_id_65661658" ON "benchapp_episode" ("environment_id")

CREATE INDEX "benchapp_episode_family_id_d570a477" ON "benchapp_episode" ("family_id")

CREATE INDEX "benchapp_episode_run_id_a279de7c" ON "benchapp_episode" ("run_id")

CREATE INDEX "benchapp_episode_library_id_c7060b79" ON "benchapp_episode" ("library_id")

CREATE UNIQUE INDEX "one_answer_per_key" ON "benchapp_modelcall" ("episode_id", "key") WHERE "status" = 'answered'

CREATE INDEX "benchapp_modelcall_episode_id_cf1554cc" ON "benchapp_modelcall" ("episode_id")

CREATE INDEX "benchapp_modelcall_reply_id_c96be8bd" ON "benchapp_modelcall" ("reply_id")

CREATE INDEX "benchapp_modelcall_request_id_c9e38055" ON "benchapp_modelcall" ("request_id")

CREATE INDEX "benchapp_task_family_id_8fafde39" ON "benchapp_task" ("family_id")

CREATE INDEX "benchapp_task_same_as_id_b1a42fb4" ON "benchapp_task" ("same_as_id")

CREATE INDEX "benchapp_task_suite_id_c952374b" ON "benchapp_task" ("suite_id")

CREATE INDEX "benchapp_taskrevision_instruction_id_5bcbd2b7" ON "benchapp_taskrevision" ("instruction_id")

CREATE INDEX "benchapp_taskrevision_task_id_6b3c94bd" ON "benchapp_taskrevision" ("task_id")

CREATE INDEX "benchapp_trial_status_793447fd" ON "benchapp_trial" ("status")

CREATE INDEX "benchapp_trial_is_done_465d164d" ON "benchapp_trial" ("is_done")

CREATE INDEX "benchapp_trial_episode_id_6dda33e1" ON "benchapp_trial" ("episode_id")

CREATE INDEX "benchapp_trial_snapshot_id_41afdae2" ON "benchapp_trial" ("snapshot_id")

CREATE INDEX "benchapp_trial_task_id_c375ea47" ON "benchapp_trial" ("task_id")

CREATE INDEX "benchapp_trial_task_revision_id_3313b5a5" ON "benchapp_trial" ("task_revision_id")

CREATE INDEX "benchapp_tr_episode_e6f73d_idx" ON "benchapp_trial" ("episode_id", "status")

CREATE UNIQUE INDEX "benchapp_trial_retrieved_from_trial_id_to_trial_id_c777b2f8_uniq" ON "benchapp_trial_retrieved" ("from_trial_id", "to_trial_id")

CREATE INDEX "benchapp_trial_retrieved_from_trial_id_9d6ecff6" ON "benchapp_trial_retrieved" ("from_trial_id")

CREATE INDEX "benchapp_trial_retrieved_to_trial_id_7726206f" ON "benchapp_trial_retrieved" ("to_trial_id")

CREATE INDEX "benchapp_decision_status_17c018a8" ON "benchapp_decision" ("status")

CREATE INDEX "benchapp_decision_patch_id_765d0441" ON "benchapp_decision" ("patch_id")

CREATE INDEX "benchapp_decision_episode_id_c26f4783" ON "benchapp_decision" ("episode_id")

CREATE INDEX "benchapp_decision_family_id_56e86c25" ON "benchapp_decision" ("family_id")

CREATE INDEX "benchapp_decision_call_id_8adebf4f" ON "benchapp_decision" ("call_id")

CREATE INDEX "benchapp_decision_after_id_ee0d037b" ON "benchapp_decision" ("after_id")

CREATE INDEX "benchapp_decision_before_id_e36d1b2d" ON "benchapp_decision" ("before_id")

CREATE INDEX "benchapp_decision_after_trial_id_a2ecd87e" ON "benchapp_decision" ("after_trial_id")

CREATE INDEX "benchapp_codebook_created_by_id_5f02bc56" ON "benchapp_codebook" ("created_by_id")

CREATE UNIQUE INDEX "one_draft_per_codebook" ON "benchapp_codebookversion" ("codebook_id") WHERE "frozen_at" IS NULL

CREATE INDEX "benchapp_codebookversion_codebook_id_337cbec4" ON "benchapp_codebookversion" ("codebook_id")

CREATE INDEX "benchapp_codebookversion_created_by_id_a7c2927a" ON "benchapp_codebookversion" ("created_by_id")

CREATE INDEX "benchapp_codebookversion_frozen_by_id_ec2c84cc" ON "benchapp_codebookversion" ("frozen_by_id")

CREATE INDEX "benchapp_codebookversion_previous_id_0c6d7959" ON "benchapp_codebookversion" ("previous_id")

CREATE INDEX "benchapp_queue_carried_from_id_85220eeb" ON "benchapp_queue" ("carried_from_id")

CREATE INDEX "benchapp_queue_created_by_id_3a15b218" ON "benchapp_queue" ("created_by_id")

CREATE INDEX "benchapp_queue_version_id_8958b4af" ON "benchapp_queue" ("version_id")

CREATE UNIQUE INDEX "benchapp_queue_reviewers_queue_id_user_id_90acc115_uniq" ON "benchapp_queue_reviewers" ("queue_id", "user_id")

CREATE INDEX "benchapp_queue_reviewers_queue_id_a719f058" ON "benchapp_queue_reviewers" ("queue_id")

CREATE INDEX "benchapp_queue_reviewers_user_id_9a2715b2" ON "benchapp_queue_reviewers" ("user_id")

CREATE UNIQUE INDEX "queue_trial_once" ON "benchapp_queueitem" ("queue_id", "trial_id") WHERE NOT ("trial_id" IS NULL)

CREATE UNIQUE INDEX "queue_decision_once" ON "benchapp_queueitem" ("queue_id", "decision_id") WHERE NOT ("decision_id" IS NULL)

CREATE INDEX "benchapp_queueitem_decision_id_3ca99f02" ON "benchapp_queueitem" ("decision_id")

CREATE INDEX "benchapp_queueitem_episode_id_9ccfe6c1" ON "benchapp_queueitem" ("episode_id")

CREATE INDEX "benchapp_queueitem_queue_id_98cb642d" ON "benchapp_queueitem" ("queue_id")

CREATE INDEX "benchapp_queueitem_snapshot_id_4456698a" ON "benchapp_queueitem" ("snapshot_id")

CREATE INDEX "benchapp_queueitem_trial_id_7d5c95e9" ON "benchapp_queueitem" ("trial_id")

CREATE INDEX "benchapp_review_carried_from_id_56920909" ON "benchapp_review" ("carried_from_id")

CREATE INDEX "benchapp_review_item_id_b6ed13ae" ON "benchapp_review" ("item_id")

CREATE INDEX "benchapp_review_reviewer_id_a2802922" ON "benchapp_review" ("reviewer_id")

CREATE UNIQUE INDEX "one_counting_attempt" ON "benchapp_attempt" ("trial_id") WHERE "counts"

CREATE INDEX "benchapp_attempt_source_key_1539dba3" ON "benchapp_attempt" ("source_key")

CREATE INDEX "benchapp_attempt_session_root_8be68524" ON "benchapp_attempt" ("session_root")

CREATE INDEX "benchapp_attempt_exception_id_b9e8a2fc" ON "benchapp_attempt" ("exception_id")

CREATE INDEX "benchapp_attempt_source_config_id_292b6938" ON "benchapp_attempt" ("source_config_id")

CREATE INDEX "benchapp_attempt_trial_id_e9270bfa" ON "benchapp_attempt" ("trial_id")

CREATE INDEX "attempt_running" ON "benchapp_attempt" ("started_at") WHERE "status" = 'running'

CREATE INDEX "attempt_superseded" ON "benchapp_attempt" ("id") WHERE "status" = 'superseded'

CREATE UNIQUE INDEX "trajectory_name" ON "benchapp_trajectory" ("attempt_id", "name") WHERE NOT "is_superseded"

CREATE INDEX "benchapp_trajectory_attempt_id_c4529355" ON "benchapp_trajectory" ("attempt_id")

CREATE INDEX "benchapp_trajectory_call_id_0763e625" ON "benchapp_trajectory" ("call_id")

CREATE INDEX "benchapp_trajectory_parent_id_0fa6fc9e" ON "benchapp_trajectory" ("parent_id")

CREATE INDEX "benchapp_trajectory_source_id_9dbbe8d8" ON "benchapp_trajectory" ("source_id")

CREATE INDEX "trajectory_superseded" ON "benchapp_trajectory" ("id") WHERE "is_superseded"

CREATE UNIQUE INDEX "one_first_failure" ON "benchapp_mark" ("review_id") WHERE "is_first_failure"

CREATE INDEX "benchapp_mark_review_id_b0dbe745" ON "benchapp_mark" ("review_id")

CREATE INDEX "benchapp_mark_trajectory_id_e3318fd0" ON "benchapp_mark" ("trajectory_id")

CREATE INDEX "benchapp_refusal_trial_id_b2494da8" ON "benchapp_refusal" ("trial_id")

CREATE INDEX "benchapp_seal_snapshot_id_4658c3c1" ON "benchapp_seal" ("snapshot_id")

CREATE INDEX "benchapp_activity_at_89564461" ON "benchapp_activity" ("at")

CREATE INDEX "benchapp_activity_actor_id_3f68c94e" ON "benchapp_activity" ("actor_id")

CREATE INDEX "benchapp_code_parent_id_d69db8ef" ON "benchapp_code" ("parent_id")

CREATE INDEX "benchapp_code_version_id_e7cc70dd" ON "benchapp_code" ("version_id")

CREATE INDEX "benchapp_codeorigin_before_id_11ee1afd" ON "benchapp_codeorigin" ("before_id")

CREATE INDEX "benchapp_codeorigin_code_id_87a8cb0e" ON "benchapp_codeorigin" ("code_id")

CREATE INDEX "benchapp_comment_place_ac005b53" ON "benchapp_comment" ("place")

CREATE INDEX "benchapp_comment_written_at_ab5e8f24" ON "benchapp_comment" ("written_at")

CREATE INDEX "benchapp_comment_author_id_b2317154" ON "benchapp_comment" ("author_id")

CREATE INDEX "benchapp_comment_parent_id_ac33f16c" ON "benchapp_comment" ("parent_id")

CREATE INDEX "benchapp_comment_run_id_23639d60" ON "benchapp_comment" ("run_id")

CREATE INDEX "benchapp_comment_trial_id_82ff644f" ON "benchapp_comment" ("trial_id")

CREATE INDEX "benchapp_comparison_created_at_ba0f5465" ON "benchapp_comparison" ("created_at")

CREATE INDEX "benchapp_comparison_created_by_id_bc931439" ON "benchapp_comparison" ("created_by_id")

CREATE INDEX "benchapp_draft_status_4d0004c6" ON "benchapp_draft" ("status")

CREATE INDEX "benchapp_draft_asked_by_id_493f9051" ON "benchapp_draft" ("asked_by_id")

CREATE INDEX "benchapp_draft_head_id_dd87f679" ON "benchapp_draft" ("head_id")

CREATE INDEX "benchapp_draft_admitted_as_id_43da7084" ON "benchapp_draft" ("admitted_as_id")

CREATE INDEX "benchapp_draft_suite_id_ab517adc" ON "benchapp_draft" ("suite_id")

CREATE INDEX "benchapp_importproblem_batch_id_2f6c9f47" ON "benchapp_importproblem" ("batch_id")

CREATE INDEX "benchapp_judgedunit_status_1bf00785" ON "benchapp_judgedunit" ("status")

CREATE INDEX "benchapp_judgedunit_attempt_id_0fd547b7" ON "benchapp_judgedunit" ("attempt_id")

CREATE INDEX "benchapp_judgedunit_source_id_abbccfaa" ON "benchapp_judgedunit" ("source_id")

CREATE INDEX "benchapp_judgedunit_judging_id_788779d4" ON "benchapp_judgedunit" ("judging_id")

CREATE INDEX "benchapp_judgedunit_snapshot_id_d3681a1a" ON "benchapp_judgedunit" ("snapshot_id")

CREATE INDEX "benchapp_judgedunit_task_id_36b2dead" ON "benchapp_judgedunit" ("task_id")

CREATE INDEX "benchapp_ju_judging_412683_idx" ON "benchapp_judgedunit" ("judging_id", "metric", "status")

CREATE INDEX "benchapp_judgement_unit_id_d27478cc" ON "benchapp_judgement" ("unit_id")

CREATE INDEX "benchapp_judgingtry_reply_id_59972536" ON "benchapp_judgingtry" ("reply_id")

CREATE INDEX "benchapp_judgingtry_request_id_aab2967a" ON "benchapp_judgingtry" ("request_id")

CREATE INDEX "benchapp_judgingtry_unit_id_41a5aeca" ON "benchapp_judgingtry" ("unit_id")

CREATE INDEX "benchapp_librarydiagnosis_episode_id_cac0e365" ON "benchapp_librarydiagnosis" ("episode_id")

CREATE INDEX "benchapp_librarydiagnosis_snapshot_id_e75f14c9" ON "benchapp_librarydiagnosis" ("snapshot_id")

CREATE INDEX "benchapp_label_carried_from_id_7e567f2d" ON "benchapp_label" ("carried_from_id")

CREATE INDEX "benchapp_label_code_id_578884ea" ON "benchapp_label" ("code_id")

CREATE INDEX "benchapp_label_mark_id_11dda278" ON "benchapp_label" ("mark_id")

CREATE INDEX "benchapp_mention_comment_id_a0a30305" ON "benchapp_mention" ("comment_id")

CREATE INDEX "benchapp_mention_user_id_72baea46" ON "benchapp_mention" ("user_id")

CREATE INDEX "benchapp_agreementreport_taken_by_id_8f7e8981" ON "benchapp_agreementreport" ("taken_by_id")

CREATE INDEX "benchapp_agreementreport_version_id_b8925a2a" ON "benchapp_agreementreport" ("version_id")

CREATE INDEX "benchapp_agreementreport_queue_id_8fb44152" ON "benchapp_agreementreport" ("queue_id")

CREATE INDEX "benchapp_judgecall_reply_id_07da2951" ON "benchapp_judgecall" ("reply_id")

CREATE INDEX "benchapp_judgecall_request_id_154da127" ON "benchapp_judgecall" ("request_id")

CREATE INDEX "benchapp_judgecall_queue_id_d458ebc6" ON "benchapp_judgecall" ("queue_id")

CREATE INDEX "benchapp_judgecall_item_id_12517cd0" ON "benchapp_judgecall" ("item_id")

CREATE UNIQUE INDEX "one_standing_resolution" ON "benchapp_resolution" ("item_id") WHERE "superseded_at" IS NULL

CREATE INDEX "benchapp_resolution_adjudicator_id_11be0867" ON "benchapp_resolution" ("adjudicator_id")

CREATE INDEX "benchapp_resolution_item_id_303bcd13" ON "benchapp_resolution" ("item_id")

CREATE UNIQUE INDEX "benchapp_resolution_codes_resolution_id_code_id_5e14d48f_uniq" ON "benchapp_resolution_codes" ("resolution_id", "code_id")

CREATE INDEX "benchapp_resolution_codes_resolution_id_70e23210" ON "benchapp_resolution_codes" ("resolution_id")

CREATE INDEX "benchapp_resolution_codes_code_id_2674e79b" ON "benchapp_resolution_codes" ("code_id")

CREATE INDEX "benchapp_judgingorder_status_8fc47549" ON "benchapp_judgingorder" ("status")

CREATE INDEX "benchapp_judgingorder_asked_by_id_f5c593d6" ON "benchapp_judgingorder" ("asked_by_id")

CREATE INDEX "benchapp_judgingorder_judging_id_fe8e29d1" ON "benchapp_judgingorder" ("judging_id")

CREATE INDEX "benchapp_judgingorder_run_id_7a844c64" ON "benchapp_judgingorder" ("run_id")

CREATE INDEX "benchapp_seeding_family_id_5bfaeeb4" ON "benchapp_seeding" ("family_id")

CREATE INDEX "benchapp_seeding_snapshot_id_3fdccb31" ON "benchapp_seeding" ("snapshot_id")

CREATE INDEX "benchapp_skip_actor_id_3e4ee154" ON "benchapp_skip" ("actor_id")

CREATE INDEX "benchapp_skip_trial_id_38ca94ed" ON "benchapp_skip" ("trial_id")

CREATE INDEX "benchapp_entry_episode_id_e0679ea5" ON "benchapp_entry" ("episode_id")

CREATE UNIQUE INDEX "one_slot_per_person" ON "benchapp_slot" ("item_id", "holder_id") WHERE NOT ("holder_id" IS NULL)

CREATE INDEX "benchapp_slot_holder_id_56d90f9c" ON "benchapp_slot" ("holder_id")

CREATE INDEX "benchapp_slot_item_id_b8ec567f" ON "benchapp_slot" ("item_id")

CREATE UNIQUE INDEX "one_draft_answer_per_key" ON "benchapp_draftstep" ("draft_id", "key") WHERE ("status" = 'taken' AND NOT ("key" = ''))

CREATE INDEX "benchapp_draftstep_by_id_e6ea8b42" ON "benchapp_draftstep" ("by_id")

CREATE INDEX "benchapp_draftstep_draft_id_c70a50a0" ON "benchapp_draftstep" ("draft_id")

CREATE INDEX "benchapp_draftstep_reply_id_2c03a6b8" ON "benchapp_draftstep" ("reply_id")

CREATE INDEX "benchapp_draftstep_request_id_e2c3ce5c" ON "benchapp_draftstep" ("request_id")

CREATE INDEX "benchapp_draftstep_after_id_3ac2ac42" ON "benchapp_draftstep" ("after_id")

CREATE INDEX "benchapp_draftstep_before_id_50807d77" ON "benchapp_draftstep" ("before_id")

CREATE INDEX "benchapp_snapshotfile_skill_e49184d3" ON "benchapp_snapshotfile" ("skill")

CREATE INDEX "benchapp_snapshotfile_blob_id_e2871d90" ON "benchapp_snapshotfile" ("blob_id")

CREATE INDEX "benchapp_snapshotfile_snapshot_id_3a132cc1" ON "benchapp_snapshotfile" ("snapshot_id")

CREATE INDEX "benchapp_suggestion_call_id_a561680b" ON "benchapp_suggestion" ("call_id")

CREATE INDEX "benchapp_suggestion_code_id_d774dd1f" ON "benchapp_suggestion" ("code_id")

CREATE INDEX "benchapp_suggestion_item_id_d71b3e3d" ON "benchapp_suggestion" ("item_id")

CREATE INDEX "benchapp_keypoint_task_id_8b25956e" ON "benchapp_keypoint" ("task_id")

CREATE INDEX "benchapp_taskgroup_task_id_70087804" ON "benchapp_taskgroup" ("task_id")

CREATE INDEX "task_group_by_value" ON "benchapp_taskgroup" ("attribute", "value")

CREATE UNIQUE INDEX "one_workflow_per_person" ON "benchapp_taskworkflow" ("task_id", "by") WHERE NOT "is_settled"

CREATE UNIQUE INDEX "one_settling_draft" ON "benchapp_taskworkflow" ("task_id", "by") WHERE ("handed_in_at" IS NULL AND "is_settled")

CREATE UNIQUE INDEX "one_settled_workflow" ON "benchapp_taskworkflow" ("task_id") WHERE ("handed_in_at" IS NOT NULL AND "is_settled" AND "superseded_at" IS NULL)

CREATE INDEX "benchapp_taskworkflow_annotator_id_3158c9bd" ON "benchapp_taskworkflow" ("annotator_id")

CREATE INDEX "benchapp_taskworkflow_imported_by_id_318876d3" ON "benchapp_taskworkflow" ("imported_by_id")

CREATE INDEX "benchapp_taskworkflow_task_id_b491fc11" ON "benchapp_taskworkflow" ("task_id")

CREATE INDEX "benchapp_skilluse_skill_8db47cd3" ON "benchapp_skilluse" ("skill")

CREATE INDEX "benchapp_skilluse_attempt_id_19f21519" ON "benchapp_skilluse" ("attempt_id")

CREATE INDEX "benchapp_skilluse_trajectory_id_f0c605a3" ON "benchapp_skilluse" ("trajectory_id")

CREATE INDEX "benchapp_sk_attempt_91e43f_idx" ON "benchapp_skilluse" ("attempt_id", "kind")

CREATE UNIQUE INDEX "one_primary_verdict" ON "benchapp_verdict" ("attempt_id") WHERE "is_primary"

CREATE INDEX "benchapp_verdict_attempt_id_f3f3dcc1" ON "benchapp_verdict" ("attempt_id")

CREATE INDEX "benchapp_verdict_output_id_3a5626f2" ON "benchapp_verdict" ("output_id")

CREATE INDEX "search_unread" ON "benchapp_searchsource" ("id") WHERE NOT ("problem" = '')

CREATE INDEX "search_cut" ON "benchapp_searchsource" ("id") WHERE "cut" > 0

CREATE INDEX "benchapp_compaction_spans_id_1bc3886a" ON "benchapp_compaction" ("spans_id")

CREATE INDEX "benchapp_compaction_text_id_cc8f5a05" ON "benchapp_compaction" ("text_id")

CREATE INDEX "benchapp_compaction_trajectory_id_aef1ec3a" ON "benchapp_compaction" ("trajectory_id")

CREATE INDEX "benchapp_chunk_blob_id_e9017a1b" ON "benchapp_chunk" ("blob_id")

CREATE INDEX "benchapp_chunk_outline_id_1be48b65" ON "benchapp_chunk" ("outline_id")

CREATE INDEX "benchapp_chunk_trajectory_id_6774a9ac" ON "benchapp_chunk" ("trajectory_id")

CREATE INDEX "benchapp_ch_traject_aa4edf_idx" ON "benchapp_chunk" ("trajectory_id", "first_step")

CREATE UNIQUE INDEX "benchapp_chunk_pieces_chunk_id_blob_id_572e0806_uniq" ON "benchapp_chunk_pieces" ("chunk_id", "blob_id")

CREATE INDEX "benchapp_chunk_pieces_chunk_id_e02e6e77" ON "benchapp_chunk_pieces" ("chunk_id")

CREATE INDEX "benchapp_chunk_pieces_blob_id_d869af31" ON "benchapp_chunk_pieces" ("blob_id")

CREATE INDEX "benchapp_searchdocument_chunk_id_9c365cb6" ON "benchapp_searchdocument" ("chunk_id")

CREATE INDEX "benchapp_searchdocument_episode_id_4e2aca41" ON "benchapp_searchdocument" ("episode_id")

CREATE INDEX "benchapp_searchdocument_run_id_523745ea" ON "benchapp_searchdocument" ("run_id")

CREATE INDEX "benchapp_searchdocument_source_id_aee7cd5f" ON "benchapp_searchdocument" ("source_id")

CREATE INDEX "benchapp_searchdocument_trial_id_4055c851" ON "benchapp_searchdocument" ("trial_id")

CREATE INDEX "search_skill" ON "benchapp_searchdocument" ("skill", "source_id") WHERE NOT ("skill" = '')

CREATE INDEX "benchapp_libraryfinding_diagnosis_id_8f720479" ON "benchapp_libraryfinding" ("diagnosis_id")

CREATE INDEX "benchapp_libraryfinding_trial_id_70bc53ed" ON "benchapp_libraryfinding" ("trial_id")

CREATE INDEX "benchapp_decisionevidence_compaction_id_a7bcf594" ON "benchapp_decisionevidence" ("compaction_id")

CREATE INDEX "benchapp_decisionevidence_decision_id_88a648ef" ON "benchapp_decisionevidence" ("decision_id")

CREATE INDEX "benchapp_decisionevidence_trial_id_f8795b6f" ON "benchapp_decisionevidence" ("trial_id")

CREATE INDEX "benchapp_codeexample_added_by_id_1f3f1d9d" ON "benchapp_codeexample" ("added_by_id")

CREATE INDEX "benchapp_codeexample_code_id_3852e6f3" ON "benchapp_codeexample" ("code_id")

CREATE INDEX "benchapp_codeexample_decision_id_b3329fca" ON "benchapp_codeexample" ("decision_id")

CREATE INDEX "benchapp_codeexample_trial_id_e7cc82e9" ON "benchapp_codeexample" ("trial_id")

CREATE INDEX "benchapp_dimension_verdict_id_3dfa46ae" ON "benchapp_dimension" ("verdict_id")

CREATE INDEX "benchapp_check_verdict_id_c5da186e" ON "benchapp_check" ("verdict_id")

CREATE TABLE "account_emailconfirmation" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "created" datetime NOT NULL, "sent" datetime NULL, "key" varchar(64) NOT NULL UNIQUE, "email_address_id" integer NOT NULL REFERENCES "account_emailaddress" ("id") DEFERRABLE INITIALLY DEFERRED)

CREATE INDEX "account_emailconfirmation_email_address_id_5b7f8c58" ON "account_emailconfirmation" ("email_address_id")

CREATE TABLE "account_emailaddress" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "verified" bool NOT NULL, "primary" bool NOT NULL, "user_id" bigint NOT NULL REFERENCES "benchapp_user" ("id") DEFERRABLE INITIALLY DEFERRED, "email" varchar(254) NOT NULL)

CREATE UNIQUE INDEX "account_emailaddress_user_id_email_987c8728_uniq" ON "account_emailaddress" ("user_id", "email")

CREATE UNIQUE INDEX "unique_verified_email" ON "account_emailaddress" ("email") WHERE "verified"

CREATE INDEX "account_emailaddress_user_id_2c513194" ON "account_emailaddress" ("user_id")

CREATE INDEX "account_emailaddress_email_03be32b2" ON "account_emailaddress" ("email")

CREATE UNIQUE INDEX "unique_primary_email" ON "account_emailaddress" ("user_id", "primary") WHERE "primary"

CREATE TABLE "benchapp_probe" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "state" varchar(20) NOT NULL, "reverted" text NOT NULL CHECK ((JSON_VALID("reverted") OR "reverted" IS NULL)), "reverted_digest" varchar(64) NOT NULL, "times" integer unsigned NOT NULL CHECK ("times" >= 0), "reason" text NOT NULL, "actor_name" varchar(150) NOT NULL, "created_at" datetime NOT NULL, "actor_id" bigint NULL REFERENCES "benchapp_user" ("id") DEFERRABLE INITIALLY DEFERRED, "decision_id" bigint NULL REFERENCES "benchapp_decision" ("id") DEFERRABLE INITIALLY DEFERRED, "origin_id" bigint NULL REFERENCES "benchapp_episode" ("id") DEFERRABLE INITIALLY DEFERRED, "run_id" bigint NOT NULL UNIQUE REFERENCES "benchapp_run" ("id") DEFERRABLE INITIALLY DEFERRED, "frozen_id" bigint NOT NULL REFERENCES "benchapp_snapshot" ("id") DEFERRABLE INITIALLY DEFERRED, "library_id" bigint NOT NULL REFERENCES "benchapp_snapshot" ("id") DEFERRABLE INITIALLY DEFERRED, "skill" varchar(200) NOT NULL)

CREATE INDEX "benchapp_probe_actor_id_7e1c7c72" ON "benchapp_probe" ("actor_id")

CREATE INDEX "benchapp_probe_decision_id_6702e4a6" ON "benchapp_probe" ("decision_id")

CREATE INDEX "benchapp_probe_origin_id_3c8c2283" ON "benchapp_probe" ("origin_id")

CREATE INDEX "benchapp_probe_frozen_id_c1e1fa5f" ON "benchapp_probe" ("frozen_id")

CREATE INDEX "benchapp_probe_library_id_01b494ab" ON "benchapp_probe" ("library_id")

CREATE INDEX "benchapp_run_joined_from_id_b9291d95" ON "benchapp_run" ("joined_from_id")

CREATE TABLE "benchapp_apitoken" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "digest" varchar(64) NOT NULL UNIQUE, "hint" varchar(16) NOT NULL, "name" varchar(100) NOT NULL, "scope" varchar(8) NOT NULL, "made_at" datetime NOT NULL, "last_used_at" datetime NULL, "revoked_at" datetime NULL, "owner_id" bigint NOT NULL REFERENCES "benchapp_user" ("id") DEFERRABLE INITIALLY DEFERRED)

CREATE TABLE "benchapp_invitation" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "digest" varchar(64) NOT NULL UNIQUE, "name" varchar(150) NOT NULL, "level" varchar(16) NOT NULL, "made_at" datetime NOT NULL, "expires_at" datetime NOT NULL, "used_at" datetime NULL, "withdrawn_at" datetime NULL, "account_id" bigint NULL REFERENCES "benchapp_user" ("id") DEFERRABLE INITIALLY DEFERRED, "made_by_id" bigint NULL REFERENCES "benchapp_user" ("id") DEFERRABLE INITIALLY DEFERRED)

CREATE INDEX "benchapp_apitoken_owner_id_3946645e" ON "benchapp_apitoken" ("owner_id")

CREATE INDEX "benchapp_invitation_account_id_ea496c2b" ON "benchapp_invitation" ("account_id")

CREATE INDEX "benchapp_invitation_made_by_id_c6bc93e9" ON "benchapp_invitation" ("made_by_id")

CREATE TABLE "benchapp_publication" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "status" varchar(16) NOT NULL, "reason" text NOT NULL, "failures" integer unsigned NOT NULL CHECK ("failures" >= 0), "worker" varchar(200) NOT NULL, "lease_until" datetime NULL, "lease_epoch" integer unsigned NOT NULL CHECK ("lease_epoch" >= 0), "form" varchar(16) NOT NULL, "title" varchar(300) NOT NULL, "query" text NOT NULL, "trials" varchar(8) NOT NULL, "origin" varchar(300) NOT NULL, "made_at" datetime NOT NULL, "finished_at" datetime NULL, "pages_drawn" integer unsigned NOT NULL CHECK ("pages_drawn" >= 0), "pages_known" integer unsigned NOT NULL CHECK ("pages_known" >= 0), "facts" text NOT NULL CHECK ((JSON_VALID("facts") OR "facts" IS NULL)), "experiment_id" bigint NULL REFERENCES "benchapp_experiment" ("id") DEFERRABLE INITIALLY DEFERRED, "made_by_id" bigint NULL REFERENCES "benchapp_user" ("id") DEFERRABLE INITIALLY DEFERRED, "queue_id" bigint NULL REFERENCES "benchapp_queue" ("id") DEFERRABLE INITIALLY DEFERRED)

CREATE INDEX "benchapp_publication_status_c8307898" ON "benchapp_publication" ("status")

CREATE INDEX "benchapp_publication_experiment_id_53baa77a" ON "benchapp_publication" ("experiment_id")

CREATE INDEX "benchapp_publication_made_by_id_b6602e9d" ON "benchapp_publication" ("made_by_id")

CREATE INDEX "benchapp_publication_queue_id_51060ed0" ON "benchapp_publication" ("queue_id")

CREATE TABLE "benchapp_alert" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "kind" varchar(16) NOT NULL, "key" varchar(64) NOT NULL, "words" varchar(500) NOT NULL, "at" datetime NOT NULL, "posted_at" datetime NULL, "mailed_at" datetime NULL, "experiment_id" bigint NOT NULL REFERENCES "benchapp_experiment" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "one_notice_per_occasion" UNIQUE ("experiment_id", "kind", "key"))

CREATE INDEX "benchapp_alert_experiment_id_c3bdf897" ON "benchapp_alert" ("experiment_id")

CREATE TABLE "benchapp_upload" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "status" varchar(16) NOT NULL, "reason" text NOT NULL, "failures" integer unsigned NOT NULL CHECK ("failures" >= 0), "worker" varchar(200) NOT NULL, "lease_until" datetime NULL, "lease_epoch" integer unsigned NOT NULL CHECK ("lease_epoch" >= 0), "created_at" datetime NOT NULL, "changed_at" datetime NOT NULL, "whole_at" datetime NULL, "title" varchar(300) NOT NULL, "server_path" varchar(4096) NOT NULL, "digest" varchar(64) NOT NULL, "files_total" integer unsigned NOT NULL CHECK ("files_total" >= 0), "bytes_total" bigint unsigned NOT NULL CHECK ("bytes_total" >= 0), "progress" text NOT NULL CHECK ((JSON_VALID("progress") OR "progress" IS NULL)), "batch_id" bigint NULL REFERENCES "benchapp_importbatch" ("id") DEFERRABLE INITIALLY DEFERRED, "by_id" bigint NULL REFERENCES "benchapp_user" ("id") DEFERRABLE INITIALLY DEFERRED)

CREATE TABLE "benchapp_importedexperiment" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "is_new" bool NOT NULL, "batch_id" bigint NOT NULL REFERENCES "benchapp_importbatch" ("id") DEFERRABLE INITIALLY DEFERRED, "experiment_id" bigint NOT NULL REFERENCES "benchapp_experiment" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "arrival_once" UNIQUE ("batch_id", "experiment_id"))

CREATE TABLE "benchapp_uploadfile" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "number" integer unsigned NOT NULL CHECK ("number" >= 0), "path" text NOT NULL, "size" bigint unsigned NOT NULL CHECK ("size" >= 0), "received" bigint unsigned NOT NULL CHECK ("received" >= 0), "modified" bigint NULL, "upload_id" bigint NOT NULL REFERENCES "benchapp_upload" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "upload_file_number" UNIQUE ("upload_id", "number"))

CREATE INDEX "benchapp_upload_status_50a3c913" ON "benchapp_upload" ("status")

CREATE INDEX "benchapp_upload_changed_at_1e59dc4b" ON "benchapp_upload" ("changed_at")

CREATE INDEX "benchapp_upload_digest_9847b2ea" ON "benchapp_upload" ("digest")

CREATE INDEX "benchapp_upload_batch_id_29f5616e" ON "benchapp_upload" ("batch_id")

CREATE INDEX "benchapp_upload_by_id_8477c0f5" ON "benchapp_upload" ("by_id")

CREATE INDEX "benchapp_importedexperiment_batch_id_10712ff4" ON "benchapp_importedexperiment" ("batch_id")

CREATE INDEX "benchapp_importedexperiment_experiment_id_be02c2de" ON "benchapp_importedexperiment" ("experiment_id")

CREATE INDEX "benchapp_uploadfile_upload_id_1546ee83" ON "benchapp_uploadfile" ("upload_id")

CREATE TABLE "benchapp_importbatch" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "paths" text NOT NULL CHECK ((JSON_VALID("paths") OR "paths" IS NULL)), "format" varchar(32) NOT NULL, "status" varchar(16) NOT NULL, "counts" text NOT NULL CHECK ((JSON_VALID("counts") OR "counts" IS NULL)), "started_at" datetime NOT NULL, "finished_at" datetime NULL, "actor_id" bigint NULL REFERENCES "benchapp_user" ("id") DEFERRABLE INITIALLY DEFERRED, "undo_reason" text NOT NULL, "undone_at" datetime NULL, "undone_by_id" bigint NULL REFERENCES "benchapp_user" ("id") DEFERRABLE INITIALLY DEFERRED)

CREATE INDEX "benchapp_importbatch_actor_id_d320de67" ON "benchapp_importbatch" ("actor_id")

CREATE INDEX "benchapp_importbatch_undone_by_id_0e5d3cc4" ON "benchapp_importbatch" ("undone_by_id")

CREATE TABLE "benchapp_suite" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" char(32) NOT NULL UNIQUE, "key" varchar(200) NOT NULL UNIQUE, "name" varchar(200) NOT NULL, "version" varchar(64) NOT NULL, "digest" varchar(64) NOT NULL, "path" varchar(1000) NOT NULL, "format" varchar(32) NOT NULL, "account" text NOT NULL CHECK ((JSON_VALID("account") OR "account" IS NULL)), "families_by" text NOT NULL CHECK ((JSON_VALID("families_by") OR "families_by" IS NULL)), "files_digest" varchar(64) NOT NULL)

CREATE TABLE "benchapp_suitefile" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "path" varchar(1000) NOT NULL, "kind" varchar(16) NOT NULL, "blob_id" varchar(64) NOT NULL REFERENCES "benchapp_blob" ("digest") DEFERRABLE INITIALLY DEFERRED, "suite_id" bigint NOT NULL REFERENCES "benchapp_suite" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "suite_file_path" UNIQUE ("suite_id", "path"))

CREATE INDEX "benchapp_suitefile_blob_id_71a2fd71" ON "benchapp_suitefile" ("blob_id")

CREATE INDEX "benchapp_suitefile_suite_id_bffd22c9" ON "benchapp_suitefile" ("suite_id")

CREATE TABLE "django_session" ("session_key" varchar(40) NOT NULL PRIMARY KEY, "session_data" text NOT NULL, "expire_date" datetime NOT NULL)

CREATE INDEX "django_session_expire_date_a5c62663" ON "django_session" ("expire_date")

CREATE TABLE "socialaccount_socialapp" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "provider" varchar(30) NOT NULL, "name" varchar(40) NOT NULL, "client_id" varchar(191) NOT NULL, "secret" varchar(191) NOT NULL, "key" varchar(191) NOT NULL, "provider_id" varchar(200) NOT NULL, "settings" text NOT NULL CHECK ((JSON_VALID("settings") OR "settings" IS NULL)))

CREATE TABLE "socialaccount_socialtoken" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "token" text NOT NULL, "token_secret" text NOT NULL, "expires_at" datetime NULL, "account_id" integer NOT NULL REFERENCES "socialaccount_socialaccount" ("id") DEFERRABLE INITIALLY DEFERRED, "app_id" integer NULL REFERENCES "socialaccount_socialapp" ("id") DEFERRABLE INITIALLY DEFERRED)

CREATE UNIQUE INDEX "socialaccount_socialtoken_app_id_account_id_fca4e0ac_uniq" ON "socialaccount_socialtoken" ("app_id", "account_id")

CREATE INDEX "socialaccount_socialtoken_account_id_951f210e" ON "socialaccount_socialtoken" ("account_id")

CREATE INDEX "socialaccount_socialtoken_app_id_636a42d7" ON "socialaccount_socialtoken" ("app_id")

CREATE TABLE "socialaccount_socialaccount" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "provider" varchar(200) NOT NULL, "uid" varchar(191) NOT NULL, "last_login" datetime NOT NULL, "date_joined" datetime NOT NULL, "user_id" bigint NOT NULL REFERENCES "benchapp_user" ("id") DEFERRABLE INITIALLY DEFERRED, "extra_data" text NOT NULL CHECK ((JSON_VALID("extra_data") OR "extra_data" IS NULL)))

CREATE UNIQUE INDEX "socialaccount_socialaccount_provider_uid_fc810c6e_uniq" ON "socialaccount_socialaccount" ("provider", "uid")

CREATE INDEX "socialaccount_socialaccount_user_id_8146e70c" ON "socialaccount_socialaccount" ("user_id")

INSERT INTO django_migrations (app, name, applied) VALUES ('contenttypes', '0001_initial', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('contenttypes', '0002_remove_content_type_name', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('auth', '0001_initial', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('auth', '0002_alter_permission_name_max_length', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('auth', '0003_alter_user_email_max_length', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('auth', '0004_alter_user_username_opts', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('auth', '0005_alter_user_last_login_null', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('auth', '0006_require_contenttypes_0002', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('auth', '0007_alter_validators_add_error_messages', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('auth', '0008_alter_user_username_max_length', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('auth', '0009_alter_user_last_name_max_length', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('auth', '0010_alter_group_name_max_length', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('auth', '0011_update_proxy_permissions', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('auth', '0012_alter_user_first_name_max_length', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0001_initial', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0002_comparisons', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0003_team_review', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0004_runner', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0005_forks', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0006_priced_part', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0007_probes', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0008_library_findings', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0009_search', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0010_search_speed', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0011_corpora', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0012_judgements', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0013_verdict_notes', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0014_tokens_known_in_part', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0015_trial_blocked', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0016_task_groups', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0017_agentic_authors', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0018_comparison_correction', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0019_judging_orders', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0020_task_workflows', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0021_drafts', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0022_attempt_files', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0023_search_again', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0024_lineage', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0025_estimated_cost', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0026_suite_account', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0027_trial_tokens_known_in_part', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0028_queued_seconds', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0029_joined_suites', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('account', '0001_initial', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('account', '0002_email_max_length', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('account', '0003_alter_emailaddress_create_unique_verified_email', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('account', '0004_alter_emailaddress_drop_unique_email', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('account', '0005_emailaddress_idx_upper_email', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('account', '0006_emailaddress_lower', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('account', '0007_emailaddress_idx_email', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('account', '0008_emailaddress_unique_primary_email_fixup', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('account', '0009_emailaddress_unique_primary_email', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0030_one_model', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0031_leave_one_skill_out', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0032_join_imported_experiments', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0033_invitations_and_tokens', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0034_publications', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0035_alerts', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0036_upload', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0037_undone_imports', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0038_suite_files', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('django_rq', '0001_initial', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('django_rq', '0002_delete_queue_create_dashboard', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('django_rq', '0003_alter_dashboard_permission_names', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('sessions', '0001_initial', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('socialaccount', '0001_initial', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('socialaccount', '0002_token_max_lengths', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('socialaccount', '0003_extra_data_default_dict', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('socialaccount', '0004_app_provider_id_settings', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('socialaccount', '0005_socialtoken_nullable_app', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('socialaccount', '0006_alter_socialaccount_extra_data', datetime('now'))

INSERT INTO django_migrations (app, name, applied) VALUES ('benchapp', '0001_squashed_0029_joined_suites', datetime('now'))