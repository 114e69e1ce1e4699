/**
 * Yes, if JSON holds T, so that it comes back as it went in; No for a Date, a Map, a class with methods, or anything that has one
 * inside. `unknown` is checked at run time.
 */
export type IsJson<T, Yes, No> = [T] extends [Json<T>] ? Yes : No

/** T, if JSON holds it; otherwise a type to which T is not assignable. */
type Json<T> = unknown extends T
  ? T
  : T extends string | number | boolean | null
    ? T
    : T extends undefined | bigint | symbol | ((...args: never[]) => unknown)
      ? never
      : T extends readonly unknown[]
        ? { [Index in keyof T]: Json<T[Index]> }
        : {
            [Key in keyof T]: Key extends symbol ? never : Json<Exclude<T[Key], undefined>> | Extract<T[Key], undefined>
          }
