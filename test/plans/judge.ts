// Reads a plan as EXPLAIN (FORMAT JSON) prints it and names its faults.

export interface PlanNode {
  readonly 'Node Type': string
  readonly 'Parent Relationship'?: string
  readonly 'Subplan Name'?: string
  readonly 'Relation Name'?: string
  readonly 'CTE Name'?: string
  readonly 'Function Name'?: string
  readonly Alias?: string
  readonly Plans?: readonly PlanNode[]
  readonly [property: string]: unknown
}

/** Configuration, a row per queue or kind, the few that are paused, and the one row of sweep. */
const SHORT: ReadonlySet<string> = new Set(['queue', 'kind', 'pause', 'sweep'])

/** A scan of a table, a sort of the backlog, a loop over a list inside a loop over a list. */
export function faults(plan: PlanNode, emptyPartitions: ReadonlySet<string> = new Set()): string[] {
  const found: string[] = []
  const text = JSON.stringify(plan)
  walk(plan, (node) => {
    const type = node['Node Type']
    if (type === 'Seq Scan' && !emptyPartitions.has(node['Relation Name']!) && !SHORT.has(node['Relation Name']!))
      found.push(`scans ${node['Relation Name']}`)
    const index = String(node['Index Name'])
    if (/^(Index|Index Only|Bitmap Index) Scan$/.test(type) && node['Index Cond'] === undefined && !SHORT.has(index)) {
      found.push(`walks all of ${index}`)
    }
    if ((type === 'Sort' || type === 'Incremental Sort') && tablesBelow(node).length > 0) {
      found.push(`sorts ${tablesBelow(node).join(', ')}`)
    }
    const joins = type === 'Hash Join' || type === 'Merge Join'
    // Two lists of one call may be joined by hash: their length is the batch.
    if (joins && (type === 'Merge Join' || tablesBelow(node).length > 0))
      found.push(`joins by ${type}: reads a whole side`)
    const inner = node.Plans?.find((child) => child['Parent Relationship'] === 'Inner')
    const outer = node.Plans?.find((child) => child['Parent Relationship'] === 'Outer')
    const once = outer?.['Node Type'] === 'Aggregate' && outer.Strategy === 'Plain'
    if (type === 'Nested Loop' && inner !== undefined && isList(inner) && !once)
      found.push('loops over a list inside a loop')
    const subplan = node['Subplan Name']
    if (node['Parent Relationship'] === 'SubPlan' && !text.includes(`hashed ${subplan}`)) {
      walk(node, (below) => {
        if (below['CTE Name'] !== undefined) found.push(`searches ${below['CTE Name']} once per row`)
      })
    }
  })
  return found
}

export function walk(node: PlanNode, visit: (node: PlanNode) => void): void {
  visit(node)
  for (const child of node.Plans ?? []) walk(child, visit)
}

function tablesBelow(sort: PlanNode): string[] {
  const tables: string[] = []
  const look = (node: PlanNode): void => {
    // A sort does not read the rows of a CTE or an init plan below it, nor those that a limit has cut.
    const relationship = node['Parent Relationship']
    if (relationship === 'InitPlan' || relationship === 'SubPlan' || node['Node Type'] === 'Limit') return
    if (node['Relation Name'] !== undefined) tables.push(node['Relation Name'])
    for (const child of node.Plans ?? []) look(child)
  }
  for (const child of sort.Plans ?? []) look(child)
  return tables
}

function isList(node: PlanNode): boolean {
  const type = node['Node Type']
  if (type === 'Materialize' || type === 'Memoize' || type === 'Subquery Scan') return (node.Plans ?? []).some(isList)
  if (type === 'CTE Scan' || type === 'ProjectSet') return true
  // A function over a column of the outer row returns as many rows as that value states; the ten priorities are ten.
  return type === 'Function Scan' && node.Alias !== 'held' && node.Alias !== 'level'
}
