import FuzzTargets
import Glibc

/// The fuzz target that the environment variable FUZZ_TARGET names. One program contains all targets, so that it is linked once.
private let target = getenv("FUZZ_TARGET").flatMap { FuzzTarget(rawValue: String(cString: $0)) }

/// The entry point of libFuzzer.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    guard let target else {
        stop("FUZZ_TARGET must be one of \(FuzzTarget.allCases.map(\.rawValue).joined(separator: ", "))")
    }
    if let finding = target.run(Array(UnsafeBufferPointer(start: bytes, count: count))) {
        stop("\(target.rawValue): \(finding)")
    }
    return 0
}

/// Prints a line to standard error and aborts.
private func stop(_ text: String) -> Never {
    let line = Array("\(text)\n".utf8)
    write(STDERR_FILENO, line, line.count)
    abort()
}
