import type { Family } from './text-format.ts'

/** Every metric of the endpoint. docs/metrics.md lists them, and the alerts and the dashboard use no other. */
export const METRICS = {
  leasehold_up: { type: 'gauge', help: '1 if the database has answered this scrape.' },
  leasehold_queue_jobs: { type: 'gauge', help: 'Unfinished jobs by queue and state, up to 10000 a queue.' },
  leasehold_queue_oldest_seconds: { type: 'gauge', help: 'How long the job that is due longest has waited.' },
  leasehold_queue_dead_letters: { type: 'gauge', help: 'Dead letters by queue, up to 10000.' },
  leasehold_workers: { type: 'gauge', help: 'Workers of all processes by state; silent ones have missed three beats.' },
  leasehold_job_table_dead_rows: { type: 'gauge', help: 'Rows of the table job that vacuum has yet to remove.' },
  leasehold_job_table_bytes: { type: 'gauge', help: 'Size of the table job with its indexes.' },
  leasehold_oldest_transaction_seconds: { type: 'gauge', help: 'Age of the oldest transaction that our role may see.' },
  leasehold_job_outcomes_total: { type: 'counter', help: 'Outcomes recorded by the workers of this process.' },
  leasehold_handler_seconds: { type: 'histogram', help: 'How long handlers ran.' },
  leasehold_start_delay_seconds: { type: 'histogram', help: 'From when a job was due until its handler began.' },
  leasehold_jobs_running: { type: 'gauge', help: 'Jobs whose handlers run in this process.' },
  leasehold_jobs_held: { type: 'gauge', help: 'Jobs that this process has claimed and whose outcome is not known.' },
  leasehold_jobs_reclaimed_total: { type: 'counter', help: 'Jobs that this process reclaimed from expired leases.' },
  leasehold_worker_deaths_total: { type: 'counter', help: 'Deaths of workers that this process noted.' },
  leasehold_problems_total: { type: 'counter', help: 'Requests of this process that failed and are retried.' },
} as const satisfies Record<string, Family>
