/** Subjects of NATS: words between dots. `isFilter`: with wildcards. */
export function isSubject(subject: unknown, isFilter = false): subject is string {
  const word = isFilter ? /^[^\s.]+$/ : /^[^\s.*>]+$/
  return typeof subject === 'string' && subject.split('.').every((part) => word.test(part))
}
