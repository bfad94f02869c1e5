import Glibc
import OTASigning
import Testing

@Suite("The state of libcrypto at the end of the process") struct OpenSSLStateTests {
    @Test("a process ends normally while its tasks verify signatures", arguments: 1...5)
    func endsWhileOthersVerify(attempt: Int) async {
        await #expect(processExitsWith: .exitCode(7)) {
            // The handlers of `exit` run in the reverse order, so the tasks still run after the handler of libcrypto.
            atexit { usleep(50_000) }
            OpenSSLState.keepAtExit()
            let key = try PrivateKey.generate()
            let signature = try key.sign([1, 2, 3])
            for _ in 0..<4 {
                Task.detached {
                    while true {
                        precondition((try? key.publicKey.verify(signature: signature, message: [1, 2, 3])) == true)
                    }
                }
            }
            usleep(50_000)
            exit(7)
        }
    }
}
