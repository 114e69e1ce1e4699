// For the message of an assertion that has failed.
export const COUNT_KINDS = `-- enqueued.count_kinds
select kind, count(*) as jobs from leasehold.jobs group by kind order by kind limit 20`
