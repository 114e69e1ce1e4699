/**
 * T if JSON can hold it unchanged; otherwise a type to which T is not assignable, so that a Date or a Map does not compile
 * where an input is declared. `unknown` is checked at run time.
 */
export type Json<T> = unknown extends T
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
