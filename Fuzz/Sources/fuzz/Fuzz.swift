import FuzzTargets
import Glibc

/// By its name in the environment: one program for all of them is linked once.
private let target = getenv("FUZZ_TARGET").flatMap { FuzzTarget(rawValue: String(cString: $0)) }

/// What libFuzzer calls.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    guard let target else {
        say("FUZZ_TARGET is one of \(FuzzTarget.allCases.map(\.rawValue).joined(separator: ", "))")
    }
    if let finding = target.run(Array(UnsafeBufferPointer(start: bytes, count: count))) {
        say("\(target.rawValue): \(finding)")
    }
    return 0
}

private func say(_ text: String) -> Never {
    let line = Array("\(text)\n".utf8)
    write(STDERR_FILENO, line, line.count)
    abort()
}
