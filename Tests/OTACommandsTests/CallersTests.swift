import OTACommands
import Testing

@Suite struct CallersTests {
    @Test func whoComesAgainIsTheSame() {
        var callers = Callers<String>()
        let (number, _) = callers.number(of: "a")
        #expect(callers.number(of: "b").number != number)
        #expect(callers.number(of: "a") == (number, nil))
        #expect(callers.peer(number) == "a")
    }

    /// Of any number of callers, 64 at a time are known, and each of the others was given up by its number.
    @Test func theOldestIsForgotten() {
        var callers = Callers<Int>()
        var known: Set<UInt16> = []
        for peer in 0..<70_000 {
            let (number, forgotten) = callers.number(of: peer)
            if let forgotten {
                #expect(known.remove(forgotten) != nil)
                #expect(callers.peer(forgotten) == nil)
            }
            #expect(known.insert(number).inserted)
            #expect(known.count <= Callers<Int>.most)
            #expect(callers.peer(number) == peer)
        }
        #expect(callers.number(of: 0).forgotten != nil)
    }
}
