pytest_plugins=["toolkit_fixtures"]
from toolkit_helpers import *
from hf_emotion import TargetedPredictor
def test_x(qacg_run, pair_run, cg_run):
    for r in (qacg_run,pair_run):
        p=TargetedPredictor(r,device="cpu")
        T=[s["text"] for s in sentihood_sentences(*SENTIHOOD_PARTS["test"])]
        for t,i in zip(T,p(T)):
            print(r.parent.name,t,[f"{x['target'][-1]}/{x['aspect'][:3]}/{x['label'][:3]}" for x in i if x['label']!='none'],len(i))
        print(report_of(r)["runs"][0]["validation"]["argmax"])
    print(invoke("compare", pair_run, qacg_run))
